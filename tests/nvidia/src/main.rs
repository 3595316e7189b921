// SPDX-License-Identifier: GPL-2.0

//! `[tool]` `loga-nvidia`: a client of the real driver that goes as far as the driver goes without a
//! GPU, and prints every answer byte by byte. Two runs on equally fresh drivers print the same;
//! they must do so with LoGA attached too.

mod calls;
mod files;
mod questions;
mod storm;

use std::io::Error;
use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "usage: loga-nvidia ask VERSION          questions on every node
       loga-nvidia files VERSION        GPU files that stay open, a round for every line of input
       loga-nvidia storm VERSION STOP   control files, and
       loga-nvidia refused VERSION STOP with a GPU file that cannot be opened, and
       loga-nvidia waiting VERSION STOP GPU files as in `files`, until the file STOP exists
       loga-nvidia write FILE OFFSET VALUE  a register, through a resource file of sysfs";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["ask", version] => questions::ask_all(version),
        ["files", version] => files::rounds(version),
        ["storm", version, stop] => {
            storm::run("storm", Path::new(stop), || storm::control(version))
        }
        ["refused", version, stop] => {
            storm::run("refused", Path::new(stop), || storm::refused(version));
        }
        ["waiting", version, stop] => {
            storm::run("waiting", Path::new(stop), || storm::waiting(version));
        }
        ["write", file, offset, value] => {
            if let Err(error) = write(file, offset, value) {
                eprintln!("loga-nvidia: {file}: {error}");
                return ExitCode::FAILURE;
            }
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// Writes one of the first registers of a BAR.
fn write(file: &str, offset: &str, value: &str) -> Result<(), Error> {
    let number =
        |text: &str| u32::from_str_radix(text.trim_start_matches("0x"), 16).map_err(Error::other);
    let (offset, value) = (number(offset)? as usize, number(value)?);
    if offset % 4 != 0 || offset >= REGISTERS {
        return Err(Error::other("the offset is not that of a register"));
    }
    let registers = calls::mapping(&calls::open(file, 0)?, REGISTERS, libc::MAP_SHARED)?;
    // SAFETY: `offset` is a multiple of four within the new mapping.
    let register = unsafe { registers.byte_add(offset) }.cast::<u32>();
    // SAFETY: As before.
    unsafe { register.write_volatile(value) };
    Ok(())
}

/// Size of a page.
const PAGE: usize = 4096;
/// How much of a BAR is mapped.
const REGISTERS: usize = 16 * PAGE;

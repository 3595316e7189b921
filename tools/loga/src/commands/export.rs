// SPDX-License-Identifier: GPL-2.0

//! `[tool]` `loga export`: a recording in the layouts of other programs.

use super::Failure;
use crate::cli;
use crate::cli::ExportFormat;
use crate::names::Name;
use crate::recording::convert::{convert, Done, List};
use crate::recording::reader::Reader;
use crate::recording::table::Table;
use crate::recording::trace::Trace;
use std::fs::{self, File};
use std::io;
use std::io::{BufWriter, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Converts a recording; returns what is to be said of it.
///
/// # Errors
///
/// [`Failure::Text`]: no recording, or a damaged one, of which what is before the damage is
/// converted; the other file cannot be written. [`Failure::Print`].
pub fn run(arguments: &cli::Export, out: &mut impl Write) -> Result<Option<String>, Failure> {
    let mut reader = Reader::open(&arguments.file).map_err(Failure::Text)?;
    let header = reader.text().to_vec();
    let done = match &arguments.out {
        None => write(&mut reader, &header, arguments.format, out)?,
        Some(path) => {
            let name = Name::from(path);
            let failed = |error: io::Error| Failure::Text(format!("cannot write {name}: {error}"));
            refuse_itself(&arguments.file, path)?;
            let mut file = BufWriter::new(File::create(path).map_err(failed)?);
            write(&mut reader, &header, arguments.format, &mut file).map_err(failed)?
        }
    };
    match done.damage {
        None => Ok(done.note),
        Some(damage) => Err(Failure::Text(format!(
            "{damage}; only what is before it was exported"
        ))),
    }
}

/// A recording that is written over is lost.
pub(super) fn refuse_itself(from: &Path, to: &Path) -> Result<(), Failure> {
    let (Ok(one), Ok(other)) = (fs::metadata(from), fs::metadata(to)) else {
        return Ok(());
    };
    if one.is_file() && (one.dev(), one.ino()) == (other.dev(), other.ino()) {
        let line = format!("--out {} is the recording itself", Name::from(to));
        return Err(Failure::Text(format!("{line}: name another file")));
    }
    Ok(())
}

fn write(
    reader: &mut Reader,
    header: &[u8],
    format: ExportFormat,
    out: &mut impl Write,
) -> io::Result<Done> {
    match format {
        ExportFormat::Csv => convert(reader, &mut Table::new(out)?, header),
        ExportFormat::Json => convert(reader, &mut List::new(out), header),
        ExportFormat::Perfetto => convert(reader, &mut Trace::new(out), header),
    }
}

#[cfg(test)]
pub(crate) mod tests;

// SPDX-License-Identifier: GPL-2.0

//! [tool] `loga agent cpu-weight`: cgroups have the weight on the GPU that they have on processors.

use super::Failure;
use crate::cli;
use crate::control::{Calls, Control};
use crate::directory::Directory;
use crate::error::Error;
use loga::uapi;
use std::collections::{BTreeSet, HashMap};
use std::io::Write;
use std::thread::sleep;

/// Follows the weights until the caller is interrupted.
///
/// # Errors
///
/// Any [`Failure`].
pub fn run(
    arguments: &cli::CpuWeight,
    control: &Control<impl Calls>,
    directory: &Directory,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let mut agent = Agent::default();
    loop {
        agent.follow(arguments.gpu, control, directory, out)?;
        out.flush()?;
        sleep(arguments.interval);
    }
}

/// A cgroup on a GPU.
type Place = (u32, u64);

/// What the agent has set.
#[derive(Default)]
struct Agent {
    /// Paths of cgroups.
    paths: HashMap<u64, String>,
    /// Weights that it has set.
    set: HashMap<Place, u32>,
    /// Cgroups that it leaves alone, and has said why.
    told: BTreeSet<Place>,
}

impl Agent {
    /// Sets the weights of all cgroups with clients to those on processors.
    fn follow(
        &mut self,
        gpu: Option<u32>,
        control: &Control<impl Calls>,
        directory: &Directory,
        out: &mut impl Write,
    ) -> Result<(), Failure> {
        for snapshot in control.chosen(gpu)? {
            let own = |client: &uapi::Client| (client.cgroup != 0).then_some(client.cgroup);
            let cgroups: BTreeSet<u64> = snapshot.clients.iter().filter_map(own).collect();
            if !cgroups.iter().all(|id| self.paths.contains_key(id)) {
                self.paths = directory.cgroup_paths();
            }
            let shares = control.shares(snapshot.gpu)?;
            for id in cgroups {
                let is_weight = |share: &&uapi::Share| {
                    let same = (share.subject, share.id) == (uapi::SUBJECT_CGROUP, id);
                    same && share.mask & uapi::SHARE_WEIGHT != 0
                };
                let there = shares.iter().find(is_weight).map(|share| share.weight);
                self.follow_one((snapshot.gpu, id), there, control, directory, out)?;
            }
        }
        Ok(())
    }

    /// The same for one cgroup, of which the weight on the GPU is `there`, if one is set.
    fn follow_one(
        &mut self,
        place: Place,
        there: Option<u32>,
        control: &Control<impl Calls>,
        directory: &Directory,
        out: &mut impl Write,
    ) -> Result<(), Failure> {
        let (gpu, id) = place;
        // A cgroup that has gone meanwhile.
        let Some(path) = self.paths.get(&id) else {
            return Ok(());
        };
        let weight = directory.cpu_weight(path);
        let why = match (weight, there) {
            (None, _) => Some("has no cpu.weight: its parent does not enable the controller"),
            (_, Some(_)) if there != self.set.get(&place).copied() => {
                Some("has a weight that was set otherwise, and keeps it")
            }
            _ => None,
        };
        if let Some(why) = why {
            if self.told.insert(place) {
                writeln!(out, "GPU {gpu}: cgroup {path} {why}")?;
            }
            return Ok(());
        }
        self.told.remove(&place);
        let Some(weight) = weight.filter(|weight| there != Some(*weight)) else {
            return Ok(());
        };
        let wanted = uapi::SetShare {
            gpu,
            action: uapi::ACTION_SET,
            subject: uapi::SUBJECT_CGROUP,
            id,
            mask: uapi::SHARE_WEIGHT,
            weight,
            ..Default::default()
        };
        match control.set_share(&wanted) {
            Ok(()) => {
                self.set.insert(place, weight);
                writeln!(out, "GPU {gpu}: cgroup {path}: weight {weight}")?;
            }
            // It has gone, is too deep, or the table is full.
            Err(Error::Refused(refusal)) => {
                if self.told.insert(place) {
                    writeln!(out, "GPU {gpu}: cgroup {path}: {refusal}")?;
                }
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeKernel;
    use std::fs;
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;

    /// A GPU with a client in the cgroup of this folder.
    fn gpu(folder: &Path) -> (FakeKernel, u64) {
        let fake = FakeKernel::new(1);
        fake.add_client(0, 1, 1000);
        let id = fs::metadata(folder).expect("a folder").ino();
        fake.gpus.borrow_mut()[0].clients[0].cgroup = id;
        (fake, id)
    }

    /// What a round says, and the weight of the only cgroup then.
    fn round(agent: &mut Agent, fake: &FakeKernel, root: &Path) -> (String, Option<u32>) {
        let (control, directory) = (Control::over(fake), Directory::below(root));
        let mut out = Vec::new();
        agent
            .follow(None, &control, &directory, &mut out)
            .expect("follows");
        let gpus = fake.gpus.borrow();
        let weight = gpus[0].shares.first().map(|share| share.weight);
        (String::from_utf8(out).expect("text"), weight)
    }

    #[test]
    fn weight_on_the_gpu_is_that_on_processors_and_follows_it() {
        let root = tempfile::tempdir().expect("a folder");
        let folder = root.path().join("night");
        fs::create_dir(&folder).expect("a folder");
        let (fake, id) = gpu(&folder);
        let mut agent = Agent::default();
        let (said, weight) = round(&mut agent, &fake, root.path());
        assert!(
            said.contains("/night has no cpu.weight") && weight.is_none(),
            "{said}"
        );
        fs::write(folder.join("cpu.weight"), "300\n").expect("a file");
        let (said, weight) = round(&mut agent, &fake, root.path());
        assert_eq!(
            (said.as_str(), weight),
            ("GPU 0: cgroup /night: weight 300\n", Some(300))
        );
        assert_eq!(fake.gpus.borrow()[0].shares[0].id, id);
        assert_eq!(
            round(&mut agent, &fake, root.path()),
            (String::new(), Some(300))
        );
        fs::write(folder.join("cpu.weight"), "50\n").expect("a file");
        assert_eq!(round(&mut agent, &fake, root.path()).1, Some(50));
    }

    #[test]
    fn weight_that_an_administrator_has_set_stays() {
        let root = tempfile::tempdir().expect("a folder");
        fs::write(root.path().join("cpu.weight"), "300\n").expect("a file");
        let (fake, _) = gpu(root.path());
        let mut agent = Agent::default();
        round(&mut agent, &fake, root.path());
        fake.gpus.borrow_mut()[0].shares[0].weight = 7;
        let (said, weight) = round(&mut agent, &fake, root.path());
        assert!(
            said.contains("was set otherwise") && weight == Some(7),
            "{said}"
        );
        assert_eq!(
            round(&mut agent, &fake, root.path()),
            (String::new(), Some(7))
        );
        // It is cleared: the agent goes on.
        fake.gpus.borrow_mut()[0].shares.clear();
        assert_eq!(round(&mut agent, &fake, root.path()).1, Some(300));
    }
}

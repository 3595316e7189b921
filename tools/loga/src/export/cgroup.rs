// SPDX-License-Identifier: GPL-2.0

//! `[tool]` What the path of a cgroup says about the container, job or unit that it is for.
//!
//! A tenant names the cgroups below its own as it likes, so only the components that the node's
//! agents make are believed: the first match from the root counts, the tree of Kubernetes or Slurm
//! begins at the first or second level, a container outside of Kubernetes has only slices around it
//! or is at the first or second level, and nothing of it is below `user.slice`.

use crate::names::Name;
use std::borrow::Cow;

/// Shortest and usual length of a container's number in hexadecimal digits.
const CONTAINER_DIGITS: std::ops::RangeInclusive<usize> = 32..=64;

/// Suffixes of units of systemd that have cgroups.
const UNITS: [&str; 3] = [".service", ".scope", ".slice"];

/// Names that a path has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// The unit of systemd: the first that is no slice, else the innermost slice.
    pub unit: Name,
    /// The pod's uid, with dashes.
    pub pod_uid: String,
    /// The container's number.
    pub container_id: String,
    /// The number of the job.
    pub slurm_job: String,
}

impl Names {
    /// Those of a path below the mount point, with or without a slash at its begin.
    pub fn of(path: &Name) -> Self {
        let parts = path.as_bytes().split(|byte| *byte == b'/');
        let bytes: Vec<&[u8]> = parts.filter(|part| !part.is_empty()).collect();
        // What is no UTF-8 is nothing that an agent makes, but for the names of units.
        let texts = bytes.iter().map(|part| String::from_utf8_lossy(part));
        let texts: Vec<Cow<'_, str>> = texts.collect();
        let parts: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
        let unit = unit(&parts).and_then(|at| bytes.get(at));
        let mut names = Self {
            unit: unit.map_or_else(Name::default, |unit| Name::from(*unit)),
            ..Self::default()
        };
        if parts.first() == Some(&"user.slice") {
            return names;
        }
        let early = |found: &dyn Fn(&str) -> bool| parts.iter().take(2).any(|part| found(part));
        if early(&|part| part.contains("kubepods")) {
            if let Some((at, uid)) = first(&parts, pod) {
                names.pod_uid = uid;
                names.container_id = parts
                    .get(at + 1)
                    .copied()
                    .and_then(container)
                    .unwrap_or_default();
            }
        } else if early(&of_slurm) {
            names.slurm_job = first(&parts, job).map(|(_, job)| job).unwrap_or_default();
        } else {
            names.container_id = outside_of_kubernetes(&parts).unwrap_or_default();
        }
        names
    }
}

/// The number of a container of Docker, Podman or containerd: of the first cgroup that is no slice,
/// or of the one in a folder such as `/docker`. A service names what is below it as it likes.
fn outside_of_kubernetes(parts: &[&str]) -> Option<String> {
    let slices = parts.iter().take_while(|part| part.ends_with(".slice"));
    let at = slices.count();
    let outermost = parts.get(at)?;
    let is_unit = UNITS.iter().any(|end| outermost.ends_with(end));
    let inside = parts.get(at + 1).filter(|_| at == 0 && !is_unit);
    container(outermost).or_else(|| inside.and_then(|part| container(part)))
}

/// `slurm`, `slurmstepd.scope`, or `NODE_slurmstepd.scope`, where a machine has several slurmd.
fn of_slurm(part: &str) -> bool {
    part.starts_with("slurm") || part.ends_with("_slurmstepd.scope")
}

/// The first component that means something, and its position.
fn first(parts: &[&str], meaning: impl Fn(&str) -> Option<String>) -> Option<(usize, String)> {
    let mut found = parts.iter().enumerate();
    found.find_map(|(at, part)| Some((at, meaning(part)?)))
}

/// The position of the unit.
fn unit(parts: &[&str]) -> Option<usize> {
    let is_slice = |at: &usize| parts.get(*at).is_some_and(|part| part.ends_with(".slice"));
    let is_unit = |at: &usize| {
        let part = parts.get(*at);
        part.is_some_and(|part| UNITS.iter().any(|suffix| part.ends_with(suffix)))
    };
    let innermost = (0..parts.len()).take_while(is_slice).last();
    let first = (0..parts.len()).filter(is_unit).find(|at| !is_slice(at));
    first.or(innermost)
}

/// The uid in `pod<uid>` or `kubepods-burstable-pod<uid with _>.slice`.
fn pod(part: &str) -> Option<String> {
    let part = part.strip_suffix(".slice").unwrap_or(part);
    let (before, uid) = part.rsplit_once("pod")?;
    let is_uid = |c: char| c.is_ascii_hexdigit() || c == '-' || c == '_';
    let fits = (before.is_empty() || before.ends_with('-')) && uid.len() >= 32 && uid.len() <= 36;
    (fits && uid.chars().all(is_uid)).then(|| uid.replace('_', "-"))
}

/// The number in `cri-containerd-<number>.scope`, `docker-<number>.scope`, or a number alone.
fn container(part: &str) -> Option<String> {
    let part = part.strip_suffix(".scope").unwrap_or(part);
    let id = part.rsplit('-').next().unwrap_or(part);
    let is_id = CONTAINER_DIGITS.contains(&id.len()) && id.chars().all(|c| c.is_ascii_hexdigit());
    is_id.then(|| id.to_string())
}

/// The number in `job_<number>`.
fn job(part: &str) -> Option<String> {
    let number = part.strip_prefix("job_")?;
    let is_number = !number.is_empty() && number.len() <= 20;
    (is_number && number.chars().all(|c| c.is_ascii_digit())).then(|| number.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "0a1b2c3d-0000-4111-8222-333344445555";
    const ID: &str = "4f5e4f5e4f5e4f5e4f5e4f5e4f5e4f5e4f5e4f5e4f5e4f5e4f5e4f5e4f5e4f5e";

    #[test]
    fn paths_of_kubelet_name_pod_and_container() {
        let dashed = UID.replace('-', "_");
        for path in [
            format!("/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{dashed}.slice/cri-containerd-{ID}.scope"),
            format!("/kubepods.slice/kubepods-pod{dashed}.slice/crio-{ID}.scope/inner"),
            format!("/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{dashed}.slice/cri-containerd-{ID}.scope"),
            format!("kubepods/besteffort/pod{UID}/{ID}"),
        ] {
            let names = Names::of(&path.as_str().into());
            assert_eq!((names.pod_uid.as_str(), names.container_id.as_str()), (UID, ID), "{path}");
            assert_eq!(names.slurm_job, "");
        }
    }

    #[test]
    fn paths_of_slurm_name_the_job() {
        for path in [
            "/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0",
            "/slurm/uid_1000/job_4711/step_batch",
            "/system.slice/n1_slurmstepd.scope/job_4711/step_0",
            "/system.slice/slurmstepd.scope/job_4711/step_0/job_1",
        ] {
            assert_eq!(Names::of(&path.into()).slurm_job, "4711", "{path}");
        }
        assert_eq!(
            Names::of(&"/system.slice/a.service/slurm/job_1".into()).slurm_job,
            ""
        );
    }

    #[test]
    fn paths_of_systemd_name_the_unit() {
        let unit = |path: &str| Names::of(&path.into()).unit;
        assert_eq!(unit("/system.slice/render.service"), "render.service");
        assert_eq!(
            unit("/user.slice/user-1000.slice/user@1000.service/app.slice/x.scope"),
            "user@1000.service"
        );
        assert_eq!(
            unit("/machine.slice/machine-qemu.slice"),
            "machine-qemu.slice"
        );
        assert_eq!(unit("/render/night"), "");
        assert_eq!(unit("/"), "");
    }

    #[test]
    fn container_without_kubernetes_is_named() {
        let names = Names::of(&format!("/system.slice/docker-{ID}.scope").into());
        assert_eq!(
            (names.container_id.as_str(), names.pod_uid.as_str()),
            (ID, "")
        );
        for path in [
            format!("/docker/{ID}"),
            format!("/machine.slice/libpod-{ID}.scope/container"),
            format!("/default/{ID}/init"),
        ] {
            assert_eq!(Names::of(&path.as_str().into()).container_id, ID, "{path}");
        }
        // A service, or who may make cgroups further inside, is no agent.
        for path in [
            format!("/system.slice/render.service/{ID}"),
            format!("/system.slice/render.service/docker-{ID}.scope"),
            format!("/render/jobs/{ID}"),
            format!("/render.scope/{ID}"),
        ] {
            assert_eq!(Names::of(&path.as_str().into()).container_id, "", "{path}");
        }
    }

    #[test]
    fn cgroup_of_a_tenant_is_not_taken_for_a_pod_or_job() {
        let fake = format!("kubepods-pod{UID}.slice/cri-containerd-{ID}.scope");
        for path in [
            format!("/user.slice/kubepods.slice/{fake}"),
            format!("/user.slice/user-1000.slice/user@1000.service/kubepods.slice/{fake}"),
            format!("/system.slice/x.service/kubepods/{fake}"),
            "/user.slice/slurm/job_7".to_string(),
        ] {
            let names = Names::of(&path.as_str().into());
            assert_eq!(
                (names.pod_uid.as_str(), names.slurm_job.as_str()),
                ("", ""),
                "{path}"
            );
        }
        // Its own pod stays, whatever it names below it.
        let dashed = UID.replace('-', "_");
        let path = format!(
            "/kubepods.slice/kubepods-pod{dashed}.slice/cri-containerd-{ID}.scope/pod{}",
            UID.replace('0', "f")
        );
        assert_eq!(Names::of(&path.as_str().into()).pod_uid, UID);
    }
}

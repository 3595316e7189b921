// SPDX-License-Identifier: GPL-2.0

//! [tool] An application beside throttles, under a policy: what Figures 7, 8 and 11 are made of.

use super::{Plan, Progress};
use crate::report::{report, Gpu};
use crate::results::Setting;
use crate::run::{run, Error};
use crate::scenario::{parse, Phase, Profile};
use loga::units::Ns;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::path::Path;

/// For how long an application runs alone, in us, by repeating its iteration: the paper says "a few
/// seconds".
const ALONE_US: f64 = 3e6;
/// The same for tests.
const ALONE_QUICK_US: f64 = 1e6;
/// Longest simulated time; nothing comes near it.
const LENGTH_MS: u32 = 600_000;
/// An application comes when the others have run for up to so long, in ns.
const ARRIVES: u64 = 1_000_000_000;
/// Time from waking up, or from the end of a kernel, to the launch of the next, in us.
const LAUNCH_US: (u32, u32) = (5, 15);
/// How late a sleep may end, in us: the timer slack of Linux.
const SLACK_US: u32 = 50;

/// Throttles that run beside an application: they sleep after each kernel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Throttles {
    pub(super) count: u32,
    pub(super) kernel_us: u32,
    pub(super) sleep_us: u32,
}

/// How GPUs are shared in a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    /// Name of the series.
    pub(super) name: &'static str,
    /// The table `policy` of a scenario, and what follows.
    policy: &'static str,
}

/// What sets NEON apart from the policy `sampling` of LoGA: submissions of who is watched are
/// trapped, and a look reads a word of memory for each channel, not registers.
macro_rules! neon {
    ($more:literal) => {
        concat!(
            "name = \"sampling\"\ntrap = true\n",
            $more,
            "[costs]\nlook_us = 0.1"
        )
    };
}

impl Way {
    /// Nobody accounts and nobody schedules.
    pub(super) const NONE: Self = Self {
        name: "none",
        policy: "name = \"hardware\"",
    };
    /// LoGA accounts.
    pub(super) const EVENT_ACCOUNTS: Self = Self {
        name: "event",
        policy: "name = \"event\"\nenforce = false",
    };
    /// LoGA accounts all the time, and all come at once.
    pub(super) const EVENT_WATCHES: Self = Self {
        name: "event",
        policy: "name = \"event\"\nenforce = false\npoll_always = true",
    };
    /// NEON accounts.
    pub(super) const SAMPLING_ACCOUNTS: Self = Self {
        name: "sampling",
        policy: neon!("enforce = false\n"),
    };
    /// NEON.
    pub(super) const SAMPLING: Self = Self {
        name: "sampling",
        policy: neon!(""),
    };
    /// LoGA as in the paper.
    pub(super) const EVENT: Self = Self {
        name: "event",
        policy: "name = \"event\"",
    };
    /// LoGA-CL.
    pub(super) const EVENT_CL: Self = Self {
        name: "event-cl",
        policy: "name = \"event-cl\"",
    };
    /// Ours.
    pub(super) const MAXMIN: Self = Self {
        name: "maxmin",
        policy: "name = \"maxmin\"",
    };
}

/// What one run of an application gave.
#[derive(Clone, Copy, Debug)]
pub(super) struct Got {
    /// Time of an iteration, in ms.
    pub(super) turnaround: f64,
    /// GPU time of the application as LoGA measured it, in ms.
    pub(super) own: f64,
    /// The same of the throttles, on average.
    pub(super) throttle: f64,
    /// Share of the time in which the GPU executed something, in percent.
    pub(super) used: f64,
}

/// An application of the paper's figures.
pub(super) struct App {
    pub(super) profile: Profile,
    /// Iterations of a run.
    iterations: u64,
}

impl App {
    /// The application of this name.
    pub(super) fn find(name: &str, plan: &Plan) -> Self {
        Self::changed(name, plan, &|_| {})
    }

    /// The same with other phases.
    pub(super) fn changed(name: &str, plan: &Plan, change: &dyn Fn(&mut Vec<Phase>)) -> Self {
        // PANIC: names are those of the profiles that come with the program; a test reads them all.
        let found = Profile::find(name, Path::new(""));
        let mut profile = found.unwrap_or_else(|error| panic!("{error}"));
        change(&mut profile.phases);
        let alone = if plan.quick { ALONE_QUICK_US } else { ALONE_US };
        // CAST: rounded up, and some thousand at most.
        let iterations = (alone / profile.alone_us()).ceil().max(1.0) as u64;
        Self {
            profile,
            iterations,
        }
    }

    /// Where its numbers come from.
    pub(super) fn setting(&self) -> Setting {
        let count = |kind: &str| {
            let all = self.profile.values.iter();
            all.filter(|value| value.from.starts_with(kind)).count()
        };
        let name = &self.profile.name;
        Setting {
            name: format!("client.{name}"),
            value: format!(
                "{}; {} iterations of {:.3} ms alone",
                self.profile.command,
                self.iterations,
                self.profile.alone_us() / 1e3
            ),
            origin: format!(
                "eval/profiles/{name}.toml: {} values from the source, {} derived, {} assumed; so \
                 many iterations that they take 3 s alone (the paper: a few seconds)",
                count("code"),
                count("derived"),
                count("assumed")
            ),
        }
    }

    /// Runs it beside throttles, with every seed.
    pub(super) fn runs(
        &self,
        throttles: Throttles,
        way: Way,
        plan: &Plan,
        progress: &mut dyn Progress,
    ) -> Result<Vec<Got>, Error> {
        let text = self.scenario(throttles, way);
        // PANIC: the text is the one below, and a test reads all of them.
        let mut scenario =
            parse("paper", &text, &plan.changes).unwrap_or_else(|error| panic!("{error}\n{text}"));
        scenario.clients[0].phases.clone_from(&self.profile.phases);
        let mut all = Vec::new();
        for seed in 1..=plan.repetitions {
            let mut random = Pcg64Mcg::seed_from_u64(seed);
            if !scenario.policy.poll_always {
                scenario.clients[0].arrive = Ns::new(random.random_range(0..ARRIVES));
            }
            let outcome = run(&scenario, seed, &mut None)?;
            let mut report = report("paper", &scenario, &[outcome]);
            all.push(self.got(&report.runs.remove(0).gpus.remove(0))?);
            progress.done();
        }
        Ok(all)
    }

    fn got(&self, gpu: &Gpu) -> Result<Got, Error> {
        let [app, throttles @ ..] = &gpu.clients[..] else {
            return Err(Error::Unfinished(self.profile.name.clone()));
        };
        let Some(total) = app.total_ms else {
            return Err(Error::Unfinished(self.profile.name.clone()));
        };
        let measured = throttles.iter().filter_map(|client| client.measured_ms);
        // CAST: counts that a double holds exactly.
        let throttle = measured.sum::<f64>() / throttles.len().max(1) as f64;
        Ok(Got {
            turnaround: total / self.iterations as f64,
            own: app.measured_ms.unwrap_or_default(),
            throttle,
            used: gpu.utilisation_pct,
        })
    }

    fn scenario(&self, throttles: Throttles, way: Way) -> String {
        let mut text = format!(
            "length_ms = {LENGTH_MS}\nuntil = \"app\"\n[policy]\n{}\n[[client]]\nname = \"app\"\n\
             profile = \"{}\"\nrepeat = {}\n",
            way.policy, self.profile.name, self.iterations
        );
        if throttles.count > 0 {
            let least = throttles.sleep_us + LAUNCH_US.0;
            let most = throttles.sleep_us + LAUNCH_US.1 + SLACK_US;
            text += &format!(
                "[[client]]\nname = \"throttle\"\ncount = {}\n[[client.phase]]\n\
                 cpu_us = {{ uniform = [{least}, {most}] }}\nkernel_us = {}\n",
                throttles.count, throttles.kernel_us
            );
        }
        text
    }
}

/// Parameters that all of these experiments share, and where they come from.
pub(super) fn settings(throttles: &str) -> Vec<Setting> {
    let setting = |name: &str, value: &str, origin: &str| Setting {
        name: name.to_owned(),
        value: value.to_owned(),
        origin: origin.to_owned(),
    };
    let costs = "assumed, docs/scenarios.md";
    vec![
        setting("client.throttle", throttles, "the paper"),
        setting(
            "client.throttle: launch",
            "5 to 15 us before each kernel",
            "assumed, as in Figure 9",
        ),
        setting(
            "client.throttle: sleep",
            "ends up to 50 us late",
            "the timer slack of Linux (prctl(2), PR_SET_TIMERSLACK)",
        ),
        setting("channels", "12 for each application", "section 5.1"),
        setting("policy.poll_ms", "1 ms per channel", "section 5.1"),
        setting("policy.ratio", "5", "section 5.1"),
        setting(
            "policy.trap",
            "sampling traps submissions of who is watched",
            "section 2.3",
        ),
        setting("costs.read_us", "1 us", "section 3.3"),
        setting(
            "costs.look_us",
            "0.1 us for each channel of each look of sampling",
            "assumed: NEON reads a word of memory; the module reads three registers",
        ),
        setting("costs.revoke_us", "5 us for each client", costs),
        setting("costs.fault_us", "2 us", costs),
        setting("costs.wakeup_us", "5 us", costs),
        setting(
            "costs.switch_us",
            "0",
            "assumed: no figure for Kepler was found",
        ),
        setting(
            "arrival of the application",
            "up to 1 s after the throttles, drawn",
            "assumed",
        ),
    ]
}

// SPDX-License-Identifier: GPL-2.0

//! Figure 7: three guests with two threads each that process pictures. One has a GPU for itself, the
//! two others share one, and all share their processors.

use super::{loga, SLICE};
use crate::outcome::Error;
use crate::scenario::{Between, Client, Costs, Kind, Phase, Policy, Scenario, Span, Wait};
use crate::systems::figure::{Criterion, Length, Line, Lines};
use crate::systems::trial::Trial;
use loga::policies::PolicyKind;
use loga::units::{Ns, Weight};
use Criterion::{Any, AtLeast, AtMost};

/// The guests: name, credits, and GPU.
const GUESTS: [(&str, u32, usize); 3] = [("Dom1", 256, 0), ("Dom2", 1024, 1), ("Dom3", 256, 0)];
/// The one with a GPU for itself.
const OWN: &str = "Dom2";
/// Processors, each with a thread of every guest.
const CPUS: usize = 2;

/// What the guest with a GPU for itself has to gain if the others sleep for their turns: nine tenths
/// of what a processor for two threads gives instead of one for three, since of the two guests that
/// share a GPU one sleeps.
const GAIN: f64 = 0.9 * 3.0 / 2.0;
/// Why `cosched` is not above `augc`.
const NO_TURN: &str =
    "The guest has its GPU for itself under either policy, so that neither picks \
                       a turn for it; they differ in whose turn it is on the other GPU only.";

/// Why it is no better off by turns where pictures are decoded for long.
const PROCESSORS: &str =
    "Pictures wait for processors: each needs one for 33 ms, its waiting for the GPU included, so that \
     six threads on two processors do 11 a second each, whoever has the turn.";

/// A picture (PicSer) that is decoded for 5 ms, more or less, and filtered by 16 calls of 400 us on
/// the processor and 600 us on the GPU, each waited for.
fn short_calls() -> Vec<Phase> {
    let decodes = Phase {
        cpu: Span::uniform_us(2_500.0, 7_500.0),
        kernel: None,
        ..Phase::new(Span::us(0), Span::us(0))
    };
    let filters = Phase {
        repeat: 16,
        ..Phase::new(
            Span::uniform_us(380.0, 420.0),
            Span::uniform_us(570.0, 630.0),
        )
    };
    vec![decodes, filters]
}

/// A picture that is decoded for 20 ms, copied for 3 ms, and filtered by five kernels of 2 ms, each
/// waited for.
fn long_kernels() -> Vec<Phase> {
    let decodes = Phase {
        cpu: Span::uniform_us(19_000.0, 21_000.0),
        copy: Some(Span::uniform_us(2_850.0, 3_150.0)),
        kernel: None,
        ..Phase::new(Span::us(0), Span::us(0))
    };
    let filters = Phase {
        repeat: 5,
        ..Phase::new(Span::us(0), Span::uniform_us(1_900.0, 2_100.0))
    };
    vec![decodes, filters]
}

/// A thread of a guest.
fn thread((name, credits, gpu): (&str, u32, usize), cpu: usize, picture: Vec<Phase>) -> Client {
    Client {
        gpu,
        cpu: Some(cpu),
        user: Some(name.to_owned()),
        weight: Weight::new(credits).unwrap_or_default(),
        wait: Wait::Spin,
        ..Client::new(&format!("{name}-{cpu}"), picture)
    }
}

/// What the guests do.
struct Got {
    /// Pictures per second of the guest with a GPU for itself.
    rate: f64,
    /// The time that 95 % of its pictures take at most, in ms.
    within: f64,
    /// Pictures per second of the two others together.
    others: f64,
}

/// All guests with these pictures, under a policy.
fn under(policy: Policy, picture: fn() -> Vec<Phase>, length: Length) -> Result<Got, Error> {
    let mut scenario = Scenario::new(Ns::from_ms(length.seconds * 1000), Costs::default());
    scenario.gpus = vec![scenario.gpus[0]; 2];
    scenario.cpus = vec![SLICE; CPUS];
    scenario.policy = Policy {
        by: Between::User,
        ..policy
    };
    let threads = GUESTS
        .iter()
        .flat_map(|guest| (0..CPUS).map(|cpu| thread(*guest, cpu, picture())));
    scenario.clients = threads.collect();
    let trial = Trial::together(scenario, length)?;
    let threads = |name| (0..CPUS).map(move |cpu| format!("{name}-{cpu}"));
    let rate = |name| threads(name).map(|one| trial.fps(&one)).sum::<f64>();
    let within = threads(OWN).map(|one| trial.percentile_ms(&one, 95));
    let others = GUESTS.iter().map(|(name, ..)| *name);
    Ok(Got {
        rate: rate(OWN),
        // CAST: two.
        within: within.sum::<f64>() / CPUS as f64,
        others: others.filter(|name| *name != OWN).map(rate).sum(),
    })
}

/// The lines of a policy, which are reported only.
fn report(what: &str, paper: &'static str, got: &Got) -> [Line; 3] {
    let line = |what: String, paper, ours, unit| Line::new(what, paper, ours, unit, Any);
    [
        line(format!("{what}: {OWN}"), paper, got.rate, "pictures/s"),
        line("95 % of its pictures take".into(), "-", got.within, "ms"),
        line(
            "the two others together".into(),
            "-",
            got.others,
            "pictures/s",
        ),
    ]
}

/// Figure 7. Guests that spin for their turns need their processors as much as without a scheduler,
/// and no turn of the GPU that one has for itself depends on others: whatever the policy is, that
/// guest does the same. So only guests that sleep for their turns are judged.
pub(super) fn pictures(length: Length) -> Lines {
    let spinning = |kind| Policy {
        throttled_spins: true,
        ..loga(kind)
    };
    let none = under(Policy::paper(Kind::Hardware), short_calls, length)?;
    let mut lines = Vec::from(report("no scheduler", "-", &none));
    for (what, paper, kind) in [
        (
            "they spin for their turns, augc",
            "a little less",
            PolicyKind::AugC,
        ),
        ("cosched", "most", PolicyKind::CoSched),
    ] {
        lines.extend(report(
            what,
            paper,
            &under(spinning(kind), short_calls, length)?,
        ));
    }
    let augc = under(loga(PolicyKind::AugC), short_calls, length)?;
    let cosched = under(loga(PolicyKind::CoSched), short_calls, length)?;
    lines.extend(report(
        "they sleep for their turns, as under LoGA, augc",
        "-",
        &augc,
    ));
    lines.extend(report("cosched", "-", &cosched));
    lines.extend(judge(&none, &augc, &cosched, GAIN).map(|line| line.unless_met(NO_TURN)));
    let long = |policy| under(policy, long_kernels, length);
    let none = long(Policy::paper(Kind::Hardware))?;
    let augc = long(loga(PolicyKind::AugC))?;
    let cosched = long(loga(PolicyKind::CoSched))?;
    lines.extend(report(
        "pictures of 20 ms of decoding and five kernels of 2 ms, no scheduler",
        "-",
        &none,
    ));
    lines.extend(judge(&none, &augc, &cosched, 1.0).map(|line| line.unless_met(PROCESSORS)));
    Ok(lines)
}

/// The lines that are judged: guests that sleep for their turns, of which the one with a GPU for
/// itself does so many times as much under `augc` as without a scheduler.
fn judge(none: &Got, augc: &Got, cosched: &Got, gain: f64) -> [Line; 4] {
    let times = |what, paper, ours, criterion| Line::new(what, paper, ours, "times", criterion);
    [
        times(
            "they sleep: its pictures, augc over no scheduler",
            "< 1",
            augc.rate / none.rate,
            AtLeast(gain),
        ),
        times(
            "cosched over augc",
            "> 1",
            cosched.rate / augc.rate,
            AtLeast(1.0),
        ),
        times(
            "its time for a picture, augc over no scheduler",
            "> 1",
            augc.within / none.within,
            AtMost(1.0 / gain),
        ),
        times(
            "cosched over augc",
            "< 1",
            cosched.within / augc.within,
            AtMost(1.0),
        ),
    ]
}

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

/// A thread of a guest (PicSer): it decodes a picture for 5 ms, more or less, filters it by 16 calls
/// of 400 us on the processor and 600 us on the GPU, and waits for each.
fn thread((name, credits, gpu): (&str, u32, usize), cpu: usize) -> Client {
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
    Client {
        gpu,
        cpu: Some(cpu),
        user: Some(name.to_owned()),
        weight: Weight::new(credits).unwrap_or_default(),
        wait: Wait::Spin,
        ..Client::new(&format!("{name}-{cpu}"), vec![decodes, filters])
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

/// All guests under a policy.
fn under(policy: Policy, length: Length) -> Result<Got, Error> {
    let mut scenario = Scenario::new(Ns::from_ms(length.seconds * 1000), Costs::default());
    scenario.gpus = vec![scenario.gpus[0]; 2];
    scenario.cpus = vec![SLICE; CPUS];
    scenario.policy = Policy {
        by: Between::User,
        ..policy
    };
    let threads = GUESTS
        .iter()
        .flat_map(|guest| (0..CPUS).map(|cpu| thread(*guest, cpu)));
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
    let none = under(Policy::paper(Kind::Hardware), length)?;
    let mut lines = Vec::from(report("no scheduler", "-", &none));
    for (what, paper, kind) in [
        (
            "they spin for their turns, augc",
            "a little less",
            PolicyKind::AugC,
        ),
        ("cosched", "most", PolicyKind::CoSched),
    ] {
        lines.extend(report(what, paper, &under(spinning(kind), length)?));
    }
    let augc = under(loga(PolicyKind::AugC), length)?;
    let cosched = under(loga(PolicyKind::CoSched), length)?;
    lines.extend(report(
        "they sleep for their turns, as under LoGA, augc",
        "-",
        &augc,
    ));
    lines.extend(report("cosched", "-", &cosched));
    lines.extend(judge(&none, &augc, &cosched));
    Ok(lines)
}

/// The lines that are judged: guests that sleep for their turns.
fn judge(none: &Got, augc: &Got, cosched: &Got) -> [Line; 4] {
    let times = |what, paper, ours, criterion| Line::new(what, paper, ours, "times", criterion);
    [
        times(
            "they sleep: its pictures, augc over no scheduler",
            "< 1",
            augc.rate / none.rate,
            AtLeast(GAIN),
        ),
        times(
            "cosched over augc",
            "> 1",
            cosched.rate / augc.rate,
            AtLeast(1.0),
        )
        .unless_met(NO_TURN),
        times(
            "its time for a picture, augc over no scheduler",
            "> 1",
            augc.within / none.within,
            AtMost(1.0 / GAIN),
        ),
        times(
            "cosched over augc",
            "< 1",
            cosched.within / augc.within,
            AtMost(1.0),
        )
        .unless_met(NO_TURN),
    ]
}

// SPDX-License-Identifier: GPL-2.0

//! Property: fading means and the decay below them agree with floating point, whatever a client
//! does and however long it sleeps.

use loga::account::decay::Decay;
use loga::account::fading::{Fade, Fading, Means};
use loga::fair::WHOLE;
use loga::units::Ns;
use proptest::prelude::*;

/// Bound of the error of a decay, of a whole: `2^-29`.
const DECAY_ERROR: f64 = 1.0 / (1u64 << 29) as f64;
/// Bound of the error of a mean, in millionths. In 200000 cases none was off by more than 12.
const MEAN_ERROR_PPM: f64 = 30.0;
/// The time constants, in seconds.
const TAUS: [f64; 2] = [2.0, 30.0];

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// A time in which a client sleeps, and a period after it.
#[derive(Clone, Debug)]
struct Step {
    asleep_ns: u64,
    span_ns: u64,
    busy_ns: u64,
    waited_ns: u64,
    copied_ns: u64,
}

fn step() -> impl Strategy<Value = Step> {
    let asleep = prop_oneof![
        8 => Just(0u64),
        1 => 0u64..200_000_000,
        1 => 0u64..70_000_000_000
    ];
    let span = prop_oneof![1_000_000u64..10_000_000, 1_000_000u64..5_000_000_000];
    let part = || prop_oneof![Just(0u64), 0u64..=1000, Just(1000)];
    let parts = (part(), part(), part());
    (asleep, span, parts).prop_map(|(asleep_ns, span_ns, (busy, waited, copied))| Step {
        asleep_ns,
        span_ns,
        busy_ns: span_ns / 1000 * busy,
        waited_ns: span_ns / 1000 * waited,
        copied_ns: span_ns / 1000 * copied,
    })
}

/// The same means in floating point, not yet divided by what the age allows for.
#[derive(Default)]
struct Exact {
    now: f64,
    busy: [f64; 2],
    waited: [f64; 2],
    copied: [f64; 2],
}

impl Exact {
    /// Fades up to a time.
    fn fade(&self, now: f64) -> Exact {
        let fade = |means: [f64; 2]| {
            let one = |at: usize| means[at] * ((self.now - now) / TAUS[at]).exp();
            [one(0), one(1)]
        };
        Exact {
            now,
            busy: fade(self.busy),
            waited: fade(self.waited),
            copied: fade(self.copied),
        }
    }

    /// Adds a period of a length that ends now.
    fn add(&mut self, span: f64, busy: f64, waited: f64, copied: f64) {
        for (at, tau) in TAUS.into_iter().enumerate() {
            let weight = -(-span / tau).exp_m1() / span;
            self.busy[at] += busy * weight;
            self.waited[at] += waited * weight;
            self.copied[at] += copied * weight;
        }
    }

    /// Those of a client that appeared at time zero.
    fn means(&self) -> [f64; 6] {
        let over_life = |at: usize, mean: f64| mean / -(-self.now / TAUS[at]).exp_m1();
        [
            over_life(0, self.busy[0]),
            over_life(1, self.busy[1]),
            over_life(0, self.waited[0]),
            over_life(1, self.waited[1]),
            over_life(0, self.copied[0]),
            over_life(1, self.copied[1]),
        ]
    }
}

/// The largest difference, in millionths.
fn error_ppm(means: &Means, exact: [f64; 6]) -> f64 {
    let means = [
        means.busy_2s,
        means.busy_30s,
        means.waited_2s,
        means.waited_30s,
        means.copied_2s,
        means.copied_30s,
    ];
    let errors = means.into_iter().zip(exact);
    errors
        .map(|(mean, exact)| (f64::from(mean) - 1e6 * exact).abs())
        .fold(0.0, f64::max)
}

/// Books the steps, and compares after each of them and some time later.
fn worst_ppm(steps: &[Step], begin_ns: u64, later_ns: u64) -> f64 {
    let (mut fading, mut exact) = (Fading::default(), Exact::default());
    let (mut now, mut worst) = (begin_ns, 0f64);
    for step in steps {
        now += step.asleep_ns + step.span_ns;
        let mut fade = Fade::new(Ns::new(now), Ns::new(step.span_ns));
        let [busy, waited, copied] = [step.busy_ns, step.waited_ns, step.copied_ns].map(Ns::new);
        fading.add(&mut fade, busy, waited, copied);
        // From the beginning, where a double has all nanoseconds.
        exact = exact.fade(seconds(now - begin_ns));
        let times = [step.span_ns, step.busy_ns, step.waited_ns, step.copied_ns];
        let [span, busy, waited, copied] = times.map(seconds);
        exact.add(span, busy, waited, copied);
        for read in [now, now + later_ns] {
            let means = fading.at(Ns::new(read), Ns::new(begin_ns));
            let exact = exact.fade(seconds(read - begin_ns));
            worst = worst.max(error_ppm(&means, exact.means()));
        }
    }
    worst
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn means_of_any_periods_agree_with_floating_point(
        steps in prop::collection::vec(step(), 1..60),
        begin_ns in 0u64..1 << 55,
        later_ns in prop_oneof![0u64..100_000_000, 0u64..70_000_000_000],
    ) {
        let worst = worst_ppm(&steps, begin_ns, later_ns);
        prop_assert!(worst <= MEAN_ERROR_PPM, "{} ppm: {:?}", worst, steps);
    }

    #[test]
    fn decay_of_any_time_agrees_with_floating_point(
        time_ns in prop_oneof![0u64..10_000_000, 0u64..100_000_000_000],
        tau_ms in 1u64..100_000,
    ) {
        let kept = Decay::new(Ns::from_ms(tau_ms)).kept(Ns::new(time_ns));
        let exact = (-seconds(time_ns) / (tau_ms as f64 / 1e3)).exp();
        let error = (kept as f64 / WHOLE as f64 - exact).abs();
        prop_assert!(error < DECAY_ERROR, "{} instead of {}", kept, exact);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    /// The shortest periods, in which each rounding weighs most against what is added.
    #[test]
    fn means_of_a_minute_of_short_periods_agree_with_floating_point(
        span_ns in 1_000_000u64..3_000_000,
        busy in 0u64..=1000,
        idle in 0usize..60_000,
    ) {
        let step = |busy: u64| Step {
            asleep_ns: 0,
            span_ns,
            busy_ns: span_ns / 1000 * busy,
            waited_ns: span_ns / 1000 * (1000 - busy),
            copied_ns: busy,
        };
        let mut steps = vec![step(busy); 60_000 - idle];
        steps.extend(vec![step(0); idle]);
        let worst = worst_ppm(&steps, 0, 70_000_000);
        prop_assert!(worst <= MEAN_ERROR_PPM, "{} ppm", worst);
    }
}

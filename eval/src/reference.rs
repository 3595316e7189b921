// SPDX-License-Identifier: GPL-2.0

//! The reference table: shares of wall time for each mix and policy.

use crate::ideal::{IdealGpu, Process};
use crate::mixes::{self, Load, Mix};
use crate::report::text::table as table_of;
use clap::Args;
use loga::account::Accounting;
use loga::engine::{Config, Inputs, Scale};
use loga::error::Error;
use loga::policies::PolicyKind;
use loga::share::{Change, GroupBy};
use loga::units::Ns;
use serde::Serialize;
use std::fmt::{self, Display, Formatter};

/// Channels that a client allocates. It uses the first of them.
pub const CHANNELS: u16 = 12;

/// What one client of a mix got, as parts of the whole time in percent.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Share {
    /// Length of its kernels.
    pub kernel_us: u64,
    /// Time between them.
    pub sleep_us: u64,
    /// Its weight.
    pub weight: u32,
    /// GPU time.
    pub share_pct: f64,
    /// GPU time as LoGA estimates it.
    pub estimated_pct: f64,
    /// Time throttled.
    pub throttled_pct: f64,
    /// Commands completed.
    pub commands: u64,
}

/// One mix under one policy.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Name of the mix.
    pub mix: &'static str,
    /// Name of the policy.
    pub policy: &'static str,
    /// Its clients.
    pub clients: Vec<Share>,
    /// Sum of their shares.
    pub utilisation_pct: f64,
}

/// The table, and what it was calculated with.
#[derive(Clone, Debug, Serialize)]
pub struct Table {
    /// What it was calculated with.
    pub settings: Settings,
    /// The rows.
    pub rows: Vec<Row>,
}

/// What to calculate with.
#[derive(Args, Clone, Copy, Debug, Serialize)]
pub struct Settings {
    /// Length of each calculation
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub seconds: u64,
    /// Polling phase per channel or client, 1 to 1000
    #[arg(long, default_value_t = 1)]
    pub poll_ms: u32,
    /// What phases grow with
    #[arg(long, default_value = "channels", value_parser = named(Scale::by_name))]
    #[serde(serialize_with = "scale_name")]
    pub scale: Scale,
    /// Vary the lengths of phases
    #[arg(long)]
    pub randomize: bool,
    /// How GPU time is accounted
    #[arg(long, default_value = "burst", value_parser = named(Accounting::by_name))]
    #[serde(serialize_with = "accounting_name")]
    pub accounting: Accounting,
    /// Non-polling phase in polling phases, 1 to 1000
    #[arg(long, default_value_t = 5)]
    pub ratio: u32,
    /// Cost of a switch from one client to another
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=1_000_000))]
    pub switch_us: u64,
}

impl Default for Settings {
    /// Those of the paper, on a GPU that switches for free.
    fn default() -> Self {
        Self {
            seconds: 10,
            poll_ms: 1,
            scale: Scale::Channels,
            randomize: false,
            accounting: Accounting::Burst,
            ratio: 5,
            switch_us: 0,
        }
    }
}

/// Reads a name.
fn named<T: 'static>(
    by_name: fn(&str) -> Result<T, Error>,
) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |name| by_name(name).map_err(|error| error.to_string())
}

fn scale_name<S: serde::Serializer>(scale: &Scale, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(scale.name())
}

fn accounting_name<S: serde::Serializer>(way: &Accounting, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(way.name())
}

/// Calculates all mixes under all policies, enforcing.
///
/// # Errors
///
/// A setting out of range.
pub fn table(settings: Settings) -> Result<Table, Error> {
    let mut rows = Vec::new();
    for mix in mixes::all().into_iter().chain(mixes::more()) {
        for policy in PolicyKind::ALL.iter().copied() {
            let config = Config {
                poll_ms: settings.poll_ms,
                scale: Some(settings.scale),
                randomize: settings.randomize,
                // Runs are counted in polling phases only.
                accounting: Some(match policy.counts_runs() {
                    true => Accounting::Burst,
                    false => settings.accounting,
                }),
                ratio: settings.ratio,
                policy,
                inputs: Inputs::Cpu,
                enforce: true,
                ..Config::paper()
            };
            rows.push(row(&mix, config, &settings)?);
        }
    }
    Ok(Table { settings, rows })
}

/// Calculates one mix.
///
/// # Errors
///
/// A setting out of range.
pub fn row(mix: &Mix, config: Config, settings: &Settings) -> Result<Row, Error> {
    let end = Ns::from_ms(settings.seconds.saturating_mul(1000));
    let switch = Ns::from_us(settings.switch_us);
    // CAST: seconds of nanoseconds are exact in a double.
    let percent = |time: Ns| 100.0 * time.get() as f64 / end.get() as f64;
    let process = |load: &Load| Process {
        kernel: load.kernel,
        sleep: load.sleep,
        channels: CHANNELS,
        ..Process::default()
    };
    let processes: Vec<_> = mix.loads.iter().map(process).collect();
    let mut machine = IdealGpu::seeded(&processes, config, GroupBy::Process, switch, 1)?;
    for (at, load) in mix.loads.iter().enumerate() {
        machine.set_process(at, &Change::weight(load.weight.get()))?;
    }
    machine.run_until(end);
    let (ran, accounts, commands) = (machine.ran(), machine.accounts(), machine.commands());
    let client = |(at, load): (usize, &Load)| Share {
        kernel_us: load.kernel.get() / 1000,
        sleep_us: load.sleep.get() / 1000,
        weight: load.weight.get(),
        share_pct: percent(ran[at]),
        estimated_pct: percent(accounts[at].received),
        throttled_pct: percent(accounts[at].throttled),
        commands: commands[at],
    };
    let clients: Vec<_> = mix.loads.iter().enumerate().map(client).collect();
    Ok(Row {
        mix: mix.name,
        policy: config.policy.name(),
        utilisation_pct: clients.iter().map(|client| client.share_pct).sum(),
        clients,
    })
}

impl Display for Table {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "Shares of {} s in percent; accounting={}, {} ms polled (scale={}), {} times that not.",
            self.settings.seconds,
            self.settings.accounting.name(),
            self.settings.poll_ms,
            self.settings.scale.name(),
            self.settings.ratio
        )?;
        writeln!(
            f,
            "GPU: round robin, commands run to completion, a switch takes {} us.\n",
            self.settings.switch_us
        )?;
        let mut rows = table_of(["mix (kernel us / sleep us)", "policy", "shares", "sum"]);
        for row in &self.rows {
            let shares: Vec<_> = row
                .clients
                .iter()
                .map(|client| format!("{:.1}", client.share_pct))
                .collect();
            rows.add_row([
                row.mix.to_string(),
                row.policy.to_string(),
                shares.join(" "),
                format!("{:.1}", row.utilisation_pct),
            ]);
        }
        writeln!(f, "{}", rows.trim_fmt())
    }
}

// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Recorded observations, given to a policy: what it would have decided.
//!
//! One JSON object per line goes in, one comes out. `docs/replay.md` describes both. Nothing is
//! kept but the clients of the last line, so that a recording may be as long as it likes.

use loga::account::PhaseTotals;
use loga::engine::{Config, Engine};
use loga::ids::{ClientId, GroupId};
use loga::policies::{self, ClientState, PolicyKind};
use loga::units::{Ns, Weight};
use serde::{Deserialize, Serialize};
use std::fmt::{self, Display, Formatter};
use std::io::{self, BufRead, Write};

/// Most clients of a line.
const CLIENTS_MAX: usize = 100_000;

/// A polling phase that has just ended, as recorded. Names that are not known are skipped.
#[derive(Clone, Debug, Deserialize)]
struct Observation {
    t_poll_ns: u64,
    t_nonpoll_ns: u64,
    clients: Vec<Observed>,
}

/// A client in a polling phase, as recorded.
#[derive(Clone, Copy, Debug, Deserialize)]
struct Observed {
    /// Number of the client.
    id: u64,
    /// GPU time in the phase.
    busy_ns: u64,
    /// Its weight.
    #[serde(default = "default_weight")]
    weight: u32,
}

/// What the policy decided.
#[derive(Clone, Debug, Serialize)]
struct Decision {
    t_sys_ns: u64,
    clients: Vec<Decided>,
}

/// What it decided about a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
struct Decided {
    /// Number of the client.
    id: u64,
    /// Its virtual time.
    vtime_ns: u64,
    /// Whether it is throttled from now on.
    throttled: bool,
}

/// Why the replay ended early.
#[derive(Debug)]
pub enum Error {
    /// What was given makes no sense; says where, if in a line.
    Input(String),
    /// Decisions could not be written.
    Output(io::Error),
}

impl Display for Error {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input(reason) => f.write_str(reason),
            Self::Output(error) => write!(f, "standard output: {error}"),
        }
    }
}

impl std::error::Error for Error {}

/// Weight of a client of which none is recorded.
fn default_weight() -> u32 {
    Weight::DEFAULT.get()
}

/// Gives the lines of `input`, a file called `name`, to a policy, and its decisions to `output`.
///
/// # Errors
///
/// The policy does not exist, a line makes no sense, or something cannot be read or written.
/// Decisions on the lines before are written all the same.
pub fn replay(
    policy: &str,
    name: &str,
    input: &mut dyn BufRead,
    output: &mut dyn Write,
) -> Result<(), Error> {
    let policy = policies::by_name(policy).map_err(|_| {
        let names = policies::NAMES.join(", ");
        Error::Input(format!("unknown policy {policy:?}, want one of {names}"))
    })?;
    let mut replay = Replay::new(policy).map_err(|error| Error::Input(error.to_string()))?;
    let mut line = String::new();
    for number in 1u64.. {
        let failed = |reason: String| Error::Input(format!("{name}:{number}: {reason}"));
        line.clear();
        let read = input.read_line(&mut line);
        if read.map_err(|error| failed(error.to_string()))? == 0 {
            break;
        }
        if line.trim().is_empty() {
            continue;
        }
        let decision = decide(&mut replay, &line).map_err(failed)?;
        serde_json::to_writer(&mut *output, &decision)
            .map_err(io::Error::from)
            .and_then(|()| output.write_all(b"\n"))
            .map_err(Error::Output)?;
    }
    output.flush().map_err(Error::Output)
}

/// Decides on one line.
fn decide(replay: &mut Replay, line: &str) -> Result<Decision, String> {
    let observation: Observation = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let mut clients = observation.clients;
    if clients.len() > CLIENTS_MAX {
        let count = clients.len();
        return Err(format!("{count} clients, want at most {CLIENTS_MAX}"));
    }
    clients.sort_by_key(|client| client.id);
    if let Some(pair) = clients.windows(2).find(|pair| pair[0].id == pair[1].id) {
        return Err(format!("client {} is there twice", pair[0].id));
    }
    let (t_sys_ns, clients) =
        replay.decide(observation.t_poll_ns, observation.t_nonpoll_ns, &clients)?;
    Ok(Decision { t_sys_ns, clients })
}

/// The engine without a GPU: recorded periods go in, decisions come out.
struct Replay {
    engine: Engine,
    states: Vec<ClientState>,
}

impl Replay {
    /// No clients yet.
    ///
    /// # Errors
    ///
    /// A setting out of range, which does not happen.
    fn new(policy: PolicyKind) -> Result<Self, loga::error::Error> {
        let config = Config {
            policy,
            enforce: true,
            ..Config::paper()
        };
        Ok(Self {
            engine: Engine::new(config, 1)?,
            states: Vec::new(),
        })
    }

    /// Decides at the end of a period with phases of these lengths in ns. `clients` are in order
    /// of their ids. A client that was missing in the period before is new, and starts at the time
    /// of the system; one that is missing now has gone.
    ///
    /// # Errors
    ///
    /// A weight is out of range, or the policy broke its contract.
    fn decide(
        &mut self,
        poll: u64,
        nonpoll: u64,
        clients: &[Observed],
    ) -> Result<(u64, Vec<Decided>), String> {
        let mut states = Vec::with_capacity(clients.len());
        let mut used = Ns::ZERO;
        for client in clients {
            let weight = Weight::new(client.weight)
                .map_err(|error| format!("client {}: {error}", client.id))?;
            let id = GroupId::of_one(ClientId::new(client.id));
            let known = self.states.binary_search_by_key(&id, |state| state.id);
            let mut state = match known {
                Ok(at) => self.states[at],
                Err(_) => ClientState::new(id, weight, self.engine.start_vtime()),
            };
            state.weight = weight;
            state.busy = Ns::new(client.busy_ns);
            state.runs = u32::from(client.busy_ns > 0);
            used = used.saturating_add(state.busy);
            states.push(state);
        }
        let length = Ns::new(poll);
        let totals = PhaseTotals {
            length,
            ran: used,
            idle: length.saturating_sub(used),
            ..PhaseTotals::default()
        };
        let fallbacks = self.engine.stats().fallbacks;
        self.engine
            .decide_recorded(Ns::new(nonpoll), &totals, &mut states);
        if self.engine.stats().fallbacks != fallbacks {
            let reason = self.engine.last_fallback();
            return Err(format!("the policy broke its contract: {reason:?}"));
        }
        self.states = states;
        let decided = |state: &ClientState| Decided {
            id: state.id.get(),
            vtime_ns: state.vtime.get(),
            throttled: state.throttled,
        };
        let decided = self.states.iter().map(decided).collect();
        Ok((self.engine.start_vtime().get(), decided))
    }
}

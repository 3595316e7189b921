// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The settings files: TOML, with what is wrong in them by line.

use crate::names;
use crate::names::{harmless, Name};
use loga::knobs::{Knob, KNOBS};
use loga::names::Kind;
use loga::uapi;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::{Spanned, Value};

/// Most GPUs in one machine.
const GPUS_MAX: u32 = 256;
/// Ends of the names of units that have cgroups.
const UNITS: [&str; 3] = [".service", ".slice", ".scope"];

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct At {
    pub(super) file: PathBuf,
    /// From 1 on.
    pub(super) line: usize,
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", Name::from(self.file.as_path()), self.line)
    }
}

/// What something is set for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Whom {
    /// A user, by name or number.
    User(Name),
    /// A cgroup, by its path.
    Cgroup(Name),
    /// The cgroup of a unit of systemd.
    Unit(Name),
}

impl Whom {
    /// What kind of thing it is.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Whom::User(_) => "user",
            Whom::Cgroup(_) => "cgroup",
            Whom::Unit(_) => "unit",
        }
    }

    /// What it is called.
    pub(super) fn name(&self) -> &Name {
        match self {
            Whom::User(name) | Whom::Cgroup(name) | Whom::Unit(name) => name,
        }
    }
}

impl fmt::Display for Whom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind(), self.name())
    }
}

/// What is set for one user or cgroup; the subject's number is still to be filled in.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) at: At,
    pub(super) whom: Whom,
    pub(super) set: uapi::SetShare,
}

/// A knob on a GPU, or on all.
pub(super) type KnobKey = (Option<u32>, &'static str);

/// What files say together.
#[derive(Clone, Debug, Default)]
pub(super) struct Settings {
    /// Values as a user writes them.
    pub(super) knobs: BTreeMap<KnobKey, (String, At)>,
    pub(super) shares: Vec<Entry>,
}

impl Settings {
    /// Adds those of a file that is read later: what they say again, they change.
    pub(super) fn merge(&mut self, later: Self) {
        self.knobs.extend(later.knobs);
        for entry in later.shares {
            let same = |one: &&mut Entry| one.whom == entry.whom && one.set.gpu == entry.set.gpu;
            match self.shares.iter_mut().find(same) {
                Some(before) => before.change(entry),
                None => self.shares.push(entry),
            }
        }
    }
}

impl Entry {
    fn change(&mut self, later: Self) {
        let (mut set, before) = (later.set, self.set);
        let kept = |bit: u32| before.mask & bit != 0 && set.mask & bit == 0;
        if kept(uapi::SHARE_WEIGHT) {
            set.weight = before.weight;
        }
        if kept(uapi::SHARE_LIMIT) {
            set.limit_pct = before.limit_pct;
        }
        if kept(uapi::SHARE_CLASS) {
            set.class = before.class;
        }
        if kept(uapi::SHARE_TARGET) {
            set.target_pct = before.target_pct;
        }
        if kept(uapi::SHARE_ACCESS) {
            set.access = before.access;
        }
        set.mask |= before.mask;
        *self = Self { set, ..later };
    }
}

/// A table of knobs.
type Knobs = BTreeMap<Spanned<String>, Spanned<Value>>;

/// The layout of a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Layout {
    #[serde(default)]
    knobs: Knobs,
    #[serde(default)]
    gpu: BTreeMap<Spanned<String>, Knobs>,
    #[serde(default)]
    share: Vec<Spanned<Share>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Share {
    user: Option<Spanned<Value>>,
    cgroup: Option<Spanned<Value>>,
    unit: Option<Spanned<Value>>,
    gpu: Option<Spanned<Value>>,
    weight: Option<Spanned<Value>>,
    limit: Option<Spanned<Value>>,
    class: Option<Spanned<Value>>,
    target: Option<Spanned<Value>>,
    access: Option<Spanned<Value>>,
}

/// What is wrong, and where in the text.
type Bad = (Range<usize>, String);

/// Reads a file's text.
///
/// # Errors
///
/// `FILE:LINE: why`, with what would be right.
pub(super) fn parse(file: &Path, text: &str) -> Result<Settings, String> {
    let at = |span: &Range<usize>| {
        let before = text.get(..span.start).unwrap_or(text);
        At {
            file: file.to_path_buf(),
            line: before.matches('\n').count() + 1,
        }
    };
    let said = |(span, why): Bad| format!("{}: {}", at(&span), harmless(&why));
    let layout: Layout = toml::from_str(text).map_err(|error| {
        let span = error.span().unwrap_or_default();
        said((span, error.message().replace('\n', "; ")))
    })?;
    let mut settings = Settings::default();
    add_knobs(None, &layout.knobs, &at, &mut settings).map_err(said)?;
    for (name, knobs) in &layout.gpu {
        let gpu = name.get_ref().parse().ok().filter(|gpu| *gpu < GPUS_MAX);
        let wrong = || {
            (
                name.span(),
                format!(
                    "gpu.{}: want the number of a GPU, such as [gpu.0]",
                    name.get_ref()
                ),
            )
        };
        add_knobs(
            Some(gpu.ok_or_else(wrong).map_err(said)?),
            knobs,
            &at,
            &mut settings,
        )
        .map_err(said)?;
    }
    for share in &layout.share {
        let (whom, set) = entry(share).map_err(said)?;
        let entry = Entry {
            at: at(&share.span()),
            whom,
            set,
        };
        let same = |one: &&Entry| one.whom == entry.whom && one.set.gpu == entry.set.gpu;
        if let Some(same) = settings.shares.iter().find(same) {
            let why = format!(
                "{} has a [[share]] in line {} already",
                entry.whom, same.at.line
            );
            return Err(said((share.span(), why)));
        }
        settings.shares.push(entry);
    }
    Ok(settings)
}

fn add_knobs(
    gpu: Option<u32>,
    knobs: &Knobs,
    at: &impl Fn(&Range<usize>) -> At,
    settings: &mut Settings,
) -> Result<(), Bad> {
    for (name, value) in knobs {
        let knob = Knob::find(name.get_ref())
            .map(|(_, knob)| knob)
            .ok_or_else(|| {
                let live = KNOBS.iter().filter(|knob| knob.live);
                let names: Vec<&str> = live.map(|knob| knob.name).collect();
                let why = format!(
                    "there is no knob {}: want one of {}",
                    name.get_ref(),
                    names.join(", ")
                );
                (name.span(), why)
            })?;
        if !knob.live {
            let why = format!("{} is set when the module is loaded: write `options loga {0}=..` into a file of /etc/modprobe.d", knob.name);
            return Err((name.span(), why));
        }
        let text = knob_text(knob, value.get_ref()).ok_or_else(|| {
            let why = format!("{} = {}: want {}", knob.name, value.get_ref(), wanted(knob));
            (value.span(), why)
        })?;
        settings
            .knobs
            .insert((gpu, knob.name), (text, at(&name.span())));
    }
    Ok(())
}

/// A knob's value as `loga policy set` takes it, if it is one.
fn knob_text(knob: &Knob, value: &Value) -> Option<String> {
    let text = match (knob.kind, value) {
        (Kind::Switch, Value::Boolean(on)) => u8::from(*on).to_string(),
        (Kind::Number { .. }, Value::Integer(number)) => number.to_string(),
        (Kind::Word(_), Value::String(word)) => word.clone(),
        _ => return None,
    };
    knob.parse(&text).ok().map(|_| text)
}

fn wanted(knob: &Knob) -> String {
    match knob.kind {
        Kind::Switch => "true or false".to_string(),
        Kind::Number { min, max } => format!("a whole number, {min} to {max}"),
        Kind::Word(words) => format!("one of {}", quoted(words)),
    }
}

fn quoted(words: &[&str]) -> String {
    let words: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
    words.join(", ")
}

/// The number of a word, if it is given.
fn word(name: &str, value: &Option<Spanned<Value>>, words: &[&str]) -> Result<Option<u32>, Bad> {
    let Some(value) = value else {
        return Ok(None);
    };
    let text = value.get_ref();
    let known = text.as_str().and_then(|word| names::number(words, word));
    let wrong = || {
        let why = format!("{name} = {text}: want one of {}", quoted(words));
        (value.span(), why)
    };
    known.map(Some).ok_or_else(wrong)
}

fn entry(share: &Spanned<Share>) -> Result<(Whom, uapi::SetShare), Bad> {
    let one = share.get_ref();
    let whom = match (&one.user, &one.cgroup, &one.unit) {
        (Some(user), None, None) => user_of(user)?,
        (None, Some(cgroup), None) => cgroup_of(cgroup)?,
        (None, None, Some(unit)) => unit_of(unit)?,
        _ => {
            return Err((
                share.span(),
                "want user, cgroup or unit, one of them".to_string(),
            ))
        }
    };
    let mut set = uapi::SetShare {
        gpu: number("gpu", &one.gpu, 0, GPUS_MAX - 1)?.unwrap_or(uapi::ALL_GPUS),
        action: uapi::ACTION_SET,
        subject: uapi::SUBJECT_USER,
        ..Default::default()
    };
    let (min, max) = (loga::units::Weight::MIN, loga::units::Weight::MAX);
    if let Some(weight) = number("weight", &one.weight, min, max)? {
        (set.weight, set.mask) = (weight, set.mask | uapi::SHARE_WEIGHT);
    }
    let (min, max) = (loga::share::Limit::MIN, loga::share::Limit::MAX);
    if let Some(limit) = number("limit", &one.limit, min, max)? {
        (set.limit_pct, set.mask) = (limit, set.mask | uapi::SHARE_LIMIT);
    }
    if let Some(target) = number("target", &one.target, 0, loga::share::Target::MAX)? {
        (set.target_pct, set.mask) = (target, set.mask | uapi::SHARE_TARGET);
    }
    if let Some(class) = word("class", &one.class, &names::CLASSES)? {
        (set.class, set.mask) = (class, set.mask | uapi::SHARE_CLASS);
    }
    if let Some(access) = word("access", &one.access, &names::ACCESS)? {
        (set.access, set.mask) = (access, set.mask | uapi::SHARE_ACCESS);
    }
    // The kernel's own check, on a subject that is always there.
    set.check().map_err(|refusal| {
        (
            share.span(),
            match refusal.code {
                uapi::REFUSED_NOTHING => {
                    "nothing to set: want weight, limit, class, target or access".to_string()
                }
                _ => refusal.to_string(),
            },
        )
    })?;
    Ok((whom, set))
}

/// A name, which may be in double quotes inside of the string, as LoGA prints those that TOML cannot
/// write.
fn name_of(text: &str, span: Range<usize>) -> Result<Name, Bad> {
    Name::read(text).map_err(|wrong| (span, format!("{text}: {}", wrong.why)))
}

fn user_of(user: &Spanned<Value>) -> Result<Whom, Bad> {
    match user.get_ref() {
        Value::String(name) if !name.is_empty() => name_of(name, user.span()).map(Whom::User),
        Value::Integer(uid) if u32::try_from(*uid).is_ok() => {
            Ok(Whom::User(uid.to_string().into()))
        }
        other => Err((
            user.span(),
            format!("user = {other}: want a name or a number"),
        )),
    }
}

fn cgroup_of(cgroup: &Spanned<Value>) -> Result<Whom, Bad> {
    if let Value::String(path) = cgroup.get_ref() {
        let path = name_of(path, cgroup.span())?;
        let mut parts = path.as_bytes().split(|byte| *byte == b'/');
        // A number would be that of another cgroup after the next boot.
        if path.as_bytes().starts_with(b"/") && !parts.any(|part| part == b"..") {
            return Ok(Whom::Cgroup(path));
        }
    }
    let other = cgroup.get_ref();
    let why = format!("cgroup = {other}: want its path below the mount point, such as \"/render\"");
    Err((cgroup.span(), why))
}

fn unit_of(unit: &Spanned<Value>) -> Result<Whom, Bad> {
    if let Value::String(name) = unit.get_ref() {
        let name = name_of(name, unit.span())?;
        let bytes = name.as_bytes();
        let is_unit = UNITS.iter().any(|end| bytes.ends_with(end.as_bytes()));
        if is_unit && !bytes.contains(&b'/') {
            return Ok(Whom::Unit(name));
        }
    }
    let (other, units) = (unit.get_ref(), UNITS.join(", "));
    let why = format!("unit = {other}: want a name that ends in {units}");
    Err((unit.span(), why))
}

fn number(
    name: &str,
    value: &Option<Spanned<Value>>,
    min: u32,
    max: u32,
) -> Result<Option<u32>, Bad> {
    let Some(value) = value else {
        return Ok(None);
    };
    let number = value
        .get_ref()
        .as_integer()
        .and_then(|number| u32::try_from(number).ok());
    match number.filter(|number| (min..=max).contains(number)) {
        Some(number) => Ok(Some(number)),
        None => Err((
            value.span(),
            format!(
                "{name} = {}: want a whole number, {min} to {max}",
                value.get_ref()
            ),
        )),
    }
}

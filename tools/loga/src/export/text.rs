// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The text formats: OpenMetrics 1.0, and the older one of Prometheus, which the textfile
//! collector of node_exporter reads. They differ in how counters are declared and in their ends.

use super::metrics::{Kind, Metric, METRICS};
use super::rows::{Row, Rows, Value};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::{encode, encode_registry};
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use std::fmt;
use std::sync::Arc;

/// A text format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// Prometheus 0.0.4.
    Prometheus,
}

impl Format {
    /// The one that a client accepts, by the header `Accept`: OpenMetrics only where it is named.
    pub fn accepted(accept: &str) -> Self {
        if accept.contains("application/openmetrics-text") {
            Format::OpenMetrics
        } else {
            Format::Prometheus
        }
    }

    /// The header `Content-Type`.
    pub const fn content_type(self) -> &'static str {
        match self {
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Format::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// Writes the rows of the parts, one metric after the other.
///
/// # Errors
///
/// That of the encoder; there is none for text in memory.
pub fn write(parts: Vec<Arc<Rows>>, format: Format) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Page { parts, format }));
    let mut text = String::new();
    match format {
        Format::OpenMetrics => encode(&mut text, &registry)?,
        Format::Prometheus => encode_registry(&mut text, &registry)?,
    }
    Ok(text)
}

#[derive(Debug)]
struct Page {
    parts: Vec<Arc<Rows>>,
    format: Format,
}

impl Collector for Page {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for (number, metric) in METRICS.iter().enumerate() {
            let mut rows = self
                .parts
                .iter()
                .flat_map(|part| part.of(number))
                .peekable();
            if rows.peek().is_none() {
                continue;
            }
            let (name, unit) = self.declared(metric);
            let kind = match metric.kind {
                Kind::Counter => MetricType::Counter,
                Kind::Gauge => MetricType::Gauge,
            };
            let mut described =
                encoder.encode_descriptor(name, metric.help, unit.as_ref(), kind)?;
            for row in rows {
                self.row(metric, row, &mut described)?;
            }
        }
        Ok(())
    }
}

impl Page {
    /// The name without what the encoder adds, and the unit that it adds.
    fn declared(&self, metric: &Metric) -> (&'static str, Option<Unit>) {
        if self.format == Format::Prometheus {
            return (metric.name, None);
        }
        let name = metric.name.strip_suffix("_total").unwrap_or(metric.name);
        let unit = metric.unit();
        let bare = unit.and_then(|unit| name.strip_suffix(unit)?.strip_suffix('_'));
        (
            bare.unwrap_or(name),
            unit.map(|unit| Unit::Other(unit.to_string())),
        )
    }

    fn row(&self, metric: &Metric, row: &Row, encoder: &mut MetricEncoder<'_>) -> fmt::Result {
        let window: &[(&str, &str)] = match &row.window {
            Some(window) => &[("window", window)],
            None => &[],
        };
        let labels = (&row.labels[..], window);
        if row.labels.is_empty() && window.is_empty() {
            return self.value(metric, row.value, encoder);
        }
        let mut labelled = family(encoder, &labels)?;
        self.value(metric, row.value, &mut labelled)
    }

    fn value(&self, metric: &Metric, value: Value, encoder: &mut MetricEncoder<'_>) -> fmt::Result {
        // A gauge is written without a suffix: the older format declares a counter with its own.
        let sums = metric.kind == Kind::Counter && self.format == Format::OpenMetrics;
        match (sums, value) {
            (true, Value::Count(count)) => {
                encoder.encode_counter::<NoLabelSet, _, u64>(&count, None)
            }
            (true, Value::Real(real)) => encoder.encode_counter::<NoLabelSet, _, f64>(&real, None),
            (false, Value::Count(count)) => encoder.encode_gauge(&count),
            (false, Value::Real(real)) => encoder.encode_gauge(&real),
        }
    }
}

/// The encoder of rows with these labels.
fn family<'a, S: EncodeLabelSet>(
    encoder: &'a mut MetricEncoder<'_>,
    labels: &'a S,
) -> Result<MetricEncoder<'a>, fmt::Error> {
    encoder.encode_family(labels)
}

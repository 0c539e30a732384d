//! One figure, found in all repeats of a curve and again in resamples of them, which tell how far it can be relied on.

use super::stats::{RESAMPLES, interval, median, quantile, resample};
use crate::{curve::Curve, random::Random};
use serde::Serialize;

/// How far a figure can be relied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// Nearly every resample shows it, within 15 % of its value.
    High,
    /// Four of five resamples show it, within half of its value.
    Medium,
    /// Anything less.
    Low,
}

/// One figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// Its key.
    pub name: String,
    /// Its unit.
    pub unit: &'static str,
    /// The value; None where the curve does not show it.
    pub value: Option<f64>,
    /// 95 % of resamples of the repeats.
    pub interval: Option<[f64; 2]>,
    /// Of a knee: where a tenth of the accesses miss, and where nine tenths do.
    pub blur: Option<[f64; 2]>,
    /// Share of resamples that show it.
    pub found: f64,
    /// How far it can be relied on.
    pub confidence: Confidence,
    /// Repeats of each point.
    pub repeats: usize,
    /// The curve.
    pub curve: String,
    /// The way it was found, or the reason why it was not.
    pub note: String,
}

/// Which repeats are looked at: all, or those of a resample.
pub(super) struct Take(Option<Vec<usize>>);

impl Take {
    fn of(&self, values: &[f64]) -> Vec<f64> {
        let Some(chosen) = &self.0 else { return values.to_vec() };
        let some: Vec<f64> = chosen.iter().filter_map(|&i| values.get(i).copied()).collect();
        // A point with fewer repeats than the others may have none of those.
        if some.is_empty() { values.to_vec() } else { some }
    }

    pub(super) fn median(&self, values: &[f64]) -> f64 {
        median(&self.of(values))
    }

    /// The mean without the highest tenth, which interrupts make: what the machine is like, its neighbours included.
    pub(super) fn trimmed(&self, values: &[f64]) -> f64 {
        let mut some = self.of(values);
        some.sort_by(f64::total_cmp);
        some.truncate((some.len() * 9).div_ceil(10));
        some.iter().sum::<f64>() / some.len() as f64
    }

    /// The lower quartile: other programs can only add misses to a chase, so its quieter repeats are nearer to the
    /// truth.
    pub(super) fn quiet(&self, values: &[f64]) -> f64 {
        quantile(&self.of(values), 0.25)
    }

    pub(super) fn mean(&self, values: &[f64]) -> f64 {
        let some = self.of(values);
        some.iter().sum::<f64>() / some.len() as f64
    }
}

/// All repeats.
pub(super) const WHOLE: Take = Take(None);

/// A value and, of knees, the blur.
pub(super) type Found = Option<(f64, Option<[f64; 2]>)>;

/// Finds a figure in a curve.
pub(super) type Finder<'a> = &'a dyn Fn(&Take) -> Found;

pub(super) struct Wanted<'a> {
    pub name: String,
    pub unit: &'static str,
    pub curve: &'a Curve,
    pub note: String,
    pub missing: String,
}

pub(super) fn figure(wanted: Wanted, find: Finder) -> Figure {
    let Wanted { name, unit, curve, note, missing } = wanted;
    let repeats = curve.points.iter().map(|p| p.cycles.len()).max().unwrap_or(0);
    let (value, blur) = find(&WHOLE).unzip();
    let mut random = Random::new(repeats as u64);
    let mut seen = Vec::new();
    for _ in 0..RESAMPLES {
        // The same repeats at every point: what disturbed one repeat disturbed its neighbours too.
        let take = Take(Some(resample(repeats.max(1), &mut random)));
        seen.extend(find(&take).map(|(value, _)| value));
    }
    let found = if value.is_some() { seen.len() as f64 / f64::from(RESAMPLES) } else { 0.0 };
    let interval = value.and_then(|_| interval(&seen));
    let confidence = match (value, interval) {
        (Some(value), Some([low, high])) if repeats >= 3 => {
            let wide = (high - low) / value.abs().max(f64::MIN_POSITIVE);
            match (found, wide) {
                (found, wide) if found >= 0.95 && wide <= 0.15 => Confidence::High,
                (found, wide) if found >= 0.8 && wide <= 0.5 => Confidence::Medium,
                _ => Confidence::Low,
            }
        }
        _ => Confidence::Low,
    };
    let note = if value.is_some() { note } else { missing };
    Figure {
        name,
        unit,
        value,
        interval,
        blur: blur.flatten(),
        found,
        confidence,
        repeats,
        curve: curve.name.clone(),
        note,
    }
}

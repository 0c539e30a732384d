//! Medians, quantiles, and intervals by resampling (Efron, "Bootstrap methods", Annals of Statistics 1979).

use crate::random::Random;

/// A quantile by linear interpolation; NaN of nothing.
pub fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted: Vec<f64> = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let at = share.clamp(0.0, 1.0) * last as f64;
    let (below, above) = (at.floor() as usize, at.ceil() as usize);
    sorted[below] + (sorted[above] - sorted[below]) * (at - below as f64)
}

/// The median.
pub fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

/// Resamples of an interval.
pub const RESAMPLES: u32 = 200;

/// `count` numbers below `of`, with repetition: which repeats a resample consists of.
pub fn resample(of: usize, random: &mut Random) -> Vec<usize> {
    (0..of).map(|_| random.below(of as u64) as usize).collect()
}

/// The middle 95 % of resampled values; None of none.
pub fn interval(values: &[f64]) -> Option<[f64; 2]> {
    (!values.is_empty()).then(|| [quantile(values, 0.025), quantile(values, 0.975)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_interpolate() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(quantile(&[0.0, 10.0], 0.9), 9.0);
        assert!(median(&[]).is_nan());
        assert_eq!(interval(&[]), None);
        assert_eq!(interval(&[5.0]), Some([5.0, 5.0]));
    }
}

//! Robust statistics over short series: medians, the Theil-Sen slope, the Mann-Kendall test, and
//! the regression on a covariate. A series is a list of points at equally spaced positions; some
//! may be missing.

/// The maximum number of points of a window. The number of pairs, which slopes need, grows with its
/// square.
pub(super) const MAX_POINTS: usize = 72;

const MAX_PAIRS: usize = MAX_POINTS * (MAX_POINTS - 1) / 2;

/// A point: its position, in buckets, and its value.
pub(super) type Point = (f32, f32);

/// A line, with the strength of the evidence that it rises.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Line {
    /// Per bucket.
    pub(super) slope: f64,
    /// The value at position 0.
    pub(super) intercept: f64,
    /// The Mann-Kendall statistic, shrunk by the autocorrelation of the residuals. Above 3, the
    /// rise is not chance.
    pub(super) significance: f64,
    /// The median absolute distance of the points from the line.
    pub(super) spread: f64,
}

/// Returns a quantile of values, which it reorders; zero for no values.
pub(super) fn quantile(values: &mut [f32], share: f64) -> f64 {
    let Some(last) = values.len().checked_sub(1) else { return 0.0 };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an index within the slice"
    )]
    let index = ((last as f64 * share).round() as usize).min(last);

    f64::from(*values.select_nth_unstable_by(index, f32::total_cmp).1)
}

/// Returns the median of values, which it reorders; zero for no values.
pub(super) fn median(values: &mut [f32]) -> f64 {
    quantile(values, 0.5)
}

/// Returns the line of Theil (1950) and Sen (1968) through at most [`MAX_POINTS`] points, with the
/// significance of Mann (1945) and Kendall. `None` for fewer than three points.
pub(super) fn line(points: &[Point]) -> Option<Line> {
    let points = &points[points.len().saturating_sub(MAX_POINTS)..];
    if points.len() < 3 {
        return None;
    }

    let (mut slopes, mut pairs, mut balance) = ([0_f32; MAX_PAIRS], 0, 0_i32);
    for (index, (x, y)) in points.iter().enumerate() {
        for (earlier_x, earlier_y) in &points[..index] {
            slopes[pairs] = (y - earlier_y) / (x - earlier_x);
            pairs += 1;
            balance += i32::from(y > earlier_y) - i32::from(y < earlier_y);
        }
    }

    let slope = median(&mut slopes[..pairs]);
    let mut residuals = [0_f32; MAX_POINTS];
    let residuals = &mut residuals[..points.len()];

    #[expect(clippy::cast_possible_truncation, reason = "values are stored with this precision")]
    for (residual, (x, y)) in residuals.iter_mut().zip(points) {
        *residual = (f64::from(*y) - slope * f64::from(*x)) as f32;
    }

    let correlation = autocorrelation(residuals).clamp(0.0, 0.95);
    let intercept = median(residuals);
    #[expect(clippy::cast_possible_truncation, reason = "values are stored with this precision")]
    residuals.iter_mut().for_each(|residual| *residual = (*residual - intercept as f32).abs());

    let spread = median(residuals);
    let significance =
        mann_kendall(points, balance) * ((1.0 - correlation) / (1.0 + correlation)).sqrt();
    Some(Line { slope, intercept, significance, spread })
}

/// Returns the standardised Mann-Kendall statistic, corrected for ties.
fn mann_kendall(points: &[Point], balance: i32) -> f64 {
    let mut values = [0_f32; MAX_POINTS];
    let values = &mut values[..points.len()];
    values.iter_mut().zip(points).for_each(|(value, (_, y))| *value = *y);
    values.sort_unstable_by(f32::total_cmp);

    let weight = |n: usize| (n * (n - 1) * (2 * n + 5)) as f64;
    let ties: f64 = values.chunk_by(|a, b| a == b).map(|tied| weight(tied.len())).sum();
    let variance = (weight(points.len()) - ties) / 18.0;
    if variance <= 0.0 { 0.0 } else { f64::from(balance - balance.signum()) / variance.sqrt() }
}

/// Returns the correlation of each value with the next one.
fn autocorrelation(values: &[f32]) -> f64 {
    let mean =
        values.iter().map(|value| f64::from(*value)).sum::<f64>() / values.len().max(1) as f64;
    let centred = |value: &f32| f64::from(*value) - mean;
    let variance: f64 = values.iter().map(|value| centred(value).powi(2)).sum();
    let covariance: f64 = values.windows(2).map(|pair| centred(&pair[0]) * centred(&pair[1])).sum();
    if variance > 0.0 { covariance / variance } else { 0.0 }
}

/// Returns how much of the value each unit of a covariate accounts for: the coefficient of the
/// covariate in the least squares fit of value = a + b·position + c·covariate. Items are (position,
/// value, covariate).
///
/// The coefficient is at least zero, because objects cost memory, and at most the smallest ratio of
/// value and covariate: without any objects, the value would otherwise be negative. The second
/// limit keeps a leak from being blamed on a few objects that happened to be created at the same
/// time.
pub(super) fn coefficient(items: impl Iterator<Item = (f64, f64, f64)> + Clone) -> f64 {
    /// Position and covariate that share more than this part of their variance cannot be told
    /// apart. The covariate then gets all of the rise that it can account for.
    const INSEPARABLE: f64 = 0.9;

    let (n, x, y, c) = items
        .clone()
        .fold((0.0, 0.0, 0.0, 0.0), |s, i| (s.0 + 1.0, s.1 + i.0, s.2 + i.1, s.3 + i.2));
    if n < 3.0 {
        return 0.0;
    }

    let (x, y, c) = (x / n, y / n, c / n);
    let (mut xx, mut cc, mut xc, mut xy, mut cy, mut most) =
        (0.0, 0.0, 0.0, 0.0, 0.0, f64::INFINITY);
    for item in items {
        let (dx, dy, dc) = (item.0 - x, item.1 - y, item.2 - c);
        xx += dx * dx;
        cc += dc * dc;
        xc += dx * dc;
        xy += dx * dy;
        cy += dc * dy;
        most = if item.2 > 0.0 { f64::min(most, item.1 / item.2) } else { most };
    }

    if cc <= 0.0 || xx <= 0.0 || !most.is_finite() {
        return 0.0;
    }

    let separable = xc * xc / (xx * cc) < INSEPARABLE;
    let coefficient = if separable { (cy * xx - xy * xc) / (cc * xx - xc * xc) } else { cy / cc };
    coefficient.clamp(0.0, most.max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(value: impl Fn(f32) -> f32) -> Vec<Point> {
        (0..60_u8).map(|x| (f32::from(x), value(f32::from(x)))).collect()
    }

    #[test]
    fn a_line_survives_outliers() {
        let line = line(&points(|x| if x % 7.0 == 0.0 { 1000.0 } else { 10.0 + 2.0 * x }))
            .expect("60 points");

        assert!((line.slope - 2.0).abs() < 0.2, "{line:?}");
        assert!(line.significance > 3.0, "{line:?}");
    }

    #[test]
    fn correlated_noise_is_less_significant_than_independent_noise() {
        let alternating = line(&points(|x| 0.1 * x + 5.0 * ((x * 7.3).sin()))).expect("60 points");
        let wave = line(&points(|x| 0.1 * x + 5.0 * ((x / 8.0).sin()))).expect("60 points");

        assert!(wave.significance < alternating.significance, "{wave:?} {alternating:?}");
        assert!(line(&points(|_| 5.0)).expect("60 points").significance.abs() < 0.01);
        assert_eq!(line(&[(0.0, 1.0), (1.0, 2.0)]), None);
    }

    #[test]
    fn the_coefficient_of_a_covariate_is_limited_by_what_it_can_cost() {
        let items = |value: fn(f64, f64) -> f64, count: fn(f64) -> f64| {
            (0..60).map(move |x| {
                (f64::from(x), value(f64::from(x), count(f64::from(x))), count(f64::from(x)))
            })
        };
        let burst: fn(f64) -> f64 = |x| if (20.0..40.0).contains(&x) { 200.0 } else { 100.0 };

        assert!((coefficient(items(|_, c| 50.0 + 0.2 * c, burst)) - 0.2).abs() < 1e-6);
        assert!((coefficient(items(|x, c| 50.0 + 0.2 * c + x, burst)) - 0.2).abs() < 1e-6);

        // The value and ten new objects rise together: ten of 1,010 objects cannot account for a
        // doubling.
        let blamed = coefficient(items(|x, _| 60.0 + x, |x| 1000.0 + x / 6.0));
        assert!(blamed * 10.0 < 1.0, "{blamed}");
        assert!(coefficient(items(|_, c| 50.0 - 0.1 * c, burst)).abs() < 1e-9);
        assert!(coefficient(items(|x, _| x, |_| 0.0)).abs() < 1e-9);
    }
}

//! Parses quantities of Kubernetes, such as `128Mi`.

/// Parses a number of bytes and rounds it up. Returns `None` if the text is not a quantity.
pub(super) fn bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let end =
        text.find(|c: char| c.is_ascii_alphabetic() && !is_exponent(text, c)).unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let number =
        number.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0)?;
    let value = match suffix {
        "" => number,
        "n" => number / 1e9,
        "u" => number / 1e6,
        "m" => number / 1e3,
        "k" => number * 1e3,
        "M" => number * 1e6,
        "G" => number * 1e9,
        "T" => number * 1e12,
        "P" => number * 1e15,
        "E" => number * 1e18,
        "Ki" => number * 1024.0,
        "Mi" => number * 1024_f64.powi(2),
        "Gi" => number * 1024_f64.powi(3),
        "Ti" => number * 1024_f64.powi(4),
        "Pi" => number * 1024_f64.powi(5),
        "Ei" => number * 1024_f64.powi(6),
        _ => return None,
    };

    // The conversion saturates.
    Some(value.ceil() as u64)
}

/// Whether this letter begins an exponent, as in `12e6` or `12E6`, and is not the suffix of `12E`.
fn is_exponent(text: &str, letter: char) -> bool {
    let mut after = text.split(letter).skip(1);
    matches!(letter, 'e' | 'E')
        && after.next().is_some_and(|rest| {
            rest.trim_start_matches(['+', '-']).starts_with(|c: char| c.is_ascii_digit())
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_the_suffixes_of_kubernetes() {
        for (text, expected) in [
            ("128Mi", Some(128 << 20)),
            ("1.5Gi", Some(3 << 29)),
            ("500M", Some(500_000_000)),
            ("129e6", Some(129_000_000)),
            ("12E6", Some(12_000_000)),
            ("2E", Some(2_000_000_000_000_000_000)),
            ("1Ei", Some(1 << 60)),
            ("134217728", Some(134_217_728)),
            ("128974848000m", Some(128_974_848)),
            ("1500m", Some(2)),
            ("100Ei", Some(u64::MAX)),
            ("0", Some(0)),
            ("", None),
            ("-1", None),
            ("1 Mi", None),
            ("128MB", None),
            ("Mi", None),
            ("NaN", None),
            ("inf", None),
            ("ä", None),
        ] {
            assert_eq!(bytes(text), expected, "{text}");
        }
    }
}

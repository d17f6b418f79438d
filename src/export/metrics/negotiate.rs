//! The format and encoding that a scraper requests in its headers.

use super::encode::TextFormat;

/// The format for this `Accept` header. The default is text 0.0.4, which every scraper reads.
#[must_use]
pub(crate) fn wanted_format(accept: Option<&str>) -> TextFormat {
    let mut best = (0, TextFormat::Text004);
    for range in accept.unwrap_or_default().split(',') {
        let mut parts = range.split(';').map(str::trim);
        let media_type = parts.next().unwrap_or_default().to_ascii_lowercase();
        let (mut weight, mut version) = (1000, None);

        for part in parts {
            match part.split_once('=') {
                Some((name, value)) if name.trim().eq_ignore_ascii_case("q") => {
                    weight = quality(value)
                }
                Some((name, value)) if name.trim().eq_ignore_ascii_case("version") => {
                    version = Some(value.trim().trim_matches('"'));
                }
                _ => {} // charset and escaping: the output suits all values
            }
        }

        let format = match (media_type.as_str(), version) {
            ("application/openmetrics-text", None | Some("1.0.0")) => TextFormat::OpenMetrics,
            ("text/plain", None | Some("0.0.4")) | ("text/*" | "*/*", _) => TextFormat::Text004,
            _ => continue,
        };
        if weight > best.0 {
            best = (weight, format); // the first of equal weights wins
        }
    }

    best.1
}

/// Whether `Accept-Encoding` requests gzip. A wildcard does not.
#[must_use]
pub(crate) fn wants_gzip(accept_encoding: Option<&str>) -> bool {
    accept_encoding.unwrap_or_default().split(',').any(|coding| {
        let (name, parameters) = coding.split_once(';').unwrap_or((coding, ""));
        let weight = parameters.trim().strip_prefix("q=").map_or(1000, quality);
        matches!(name.trim().to_ascii_lowercase().as_str(), "gzip" | "x-gzip") && weight > 0
    })
}

/// A weight in thousandths; zero if it is invalid.
fn quality(text: &str) -> u32 {
    match text.trim().parse::<f64>() {
        Ok(weight) if (0.0..=1.0).contains(&weight) => (weight * 1000.0) as u32,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn real_scrapers_get_the_format_that_they_prefer() {
        for (accept, expected) in [
            (None, TextFormat::Text004),
            (Some(""), TextFormat::Text004),
            (Some("*/*"), TextFormat::Text004),
            (
                Some("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"),
                TextFormat::Text004,
            ),
            (Some("text/plain;version=0.0.4"), TextFormat::Text004),
            (Some("application/openmetrics-text"), TextFormat::OpenMetrics),
            (
                Some("APPLICATION/OpenMetrics-Text; Version=\"1.0.0\"; charset=utf-8"),
                TextFormat::OpenMetrics,
            ),
            (Some("application/openmetrics-text;version=0.0.1"), TextFormat::Text004),
            // Prometheus 2.42
            (
                Some(
                    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
                     text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
                ),
                TextFormat::OpenMetrics,
            ),
            // Prometheus 3
            (
                Some(
                    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
                     application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,\
                     text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
                ),
                TextFormat::OpenMetrics,
            ),
            // Prometheus with native histograms, which prefers protobuf
            (
                Some(
                    "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited,\
                     application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.5",
                ),
                TextFormat::OpenMetrics,
            ),
            (Some("text/plain;q=0.9, application/openmetrics-text;q=0.3"), TextFormat::Text004),
            (Some("application/openmetrics-text;q=0, */*;q=0.1"), TextFormat::Text004),
            (Some("application/openmetrics-text;q=lots"), TextFormat::Text004),
            (Some(";;;,=,q=1"), TextFormat::Text004),
        ] {
            assert_eq!(wanted_format(accept), expected, "{accept:?}");
        }
    }

    #[test]
    fn gzip_is_used_only_on_request() {
        for (header, expected) in [
            (None, false),
            (Some("gzip"), true),
            (Some("deflate, GZIP;q=0.5"), true),
            (Some("gzip;q=0"), false),
            (Some("identity"), false),
            (Some("*"), false),
        ] {
            assert_eq!(wants_gzip(header), expected, "{header:?}");
        }
    }
}

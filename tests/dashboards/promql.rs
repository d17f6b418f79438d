//! Finds the selectors in a query. Prometheus itself parses the queries; this only shows what
//! surrounds each selector.

/// A selector of series.
#[derive(Debug, PartialEq)]
pub(crate) struct Selector<'a> {
    pub(crate) metric: &'a str,
    /// The text between the braces.
    pub(crate) matchers: &'a str,
    /// The text between the brackets.
    pub(crate) range: Option<&'a str>,
    /// The functions and aggregations that it is an argument of, the outermost first. Plain
    /// parentheses are empty.
    pub(crate) around: Vec<&'a str>,
}

/// Words after which parentheses contain labels and not an argument.
const GROUPINGS: [&str; 6] = ["by", "without", "on", "ignoring", "group_left", "group_right"];
/// Words of PromQL that are not names of metrics.
const OPERATORS: [&str; 6] = ["and", "or", "unless", "bool", "offset", "inf"];

/// Returns the selectors of a query.
pub(crate) fn selectors(query: &str) -> Vec<Selector<'_>> {
    let (mut found, mut around, mut rest) = (Vec::new(), Vec::new(), query);

    // The aggregation before `by (…)`, which belongs to the parentheses after it.
    let (mut word, mut aggregation) = ("", "");
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|c: char| !is_of_name(c)).unwrap_or(rest.len());
        if end > 0 {
            let (name, after) = rest.split_at(end);
            rest = after;

            let trimmed = after.trim_start();
            if GROUPINGS.contains(&name) {
                aggregation = if word.is_empty() { aggregation } else { word };

                // Skip the labels.
                if let Some(labels) = trimmed.strip_prefix('(') {
                    rest = labels.split_once(')').map_or("", |(_, after)| after);
                }

                word = "";
            } else if OPERATORS.contains(&name) {
                word = "";
            } else if trimmed.starts_with('(')
                || GROUPINGS.iter().any(|grouping| trimmed.starts_with(grouping))
            {
                word = name;
            } else if !name.starts_with(|c: char| c.is_ascii_digit()) {
                let (matchers, after) = between(rest, '{', '}');
                let (range, after) = between(after, '[', ']');
                rest = after;

                let matchers = matchers.unwrap_or_default();
                found.push(Selector { metric: name, matchers, range, around: around.clone() });
            }

            continue;
        }

        match first {
            // A string outside of the matchers is an argument, such as the name of a label.
            '"' => {
                let after = rest[1..].find('"').map_or(rest.len() - 1, |end| end + 1);
                rest = &rest[after..];
            }
            '(' => {
                around.push(if word.is_empty() { aggregation } else { word });
                (word, aggregation) = ("", "");
            }
            ')' => _ = around.pop(),
            _ => {}
        }

        rest = &rest[first.len_utf8()..];
    }

    found
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == ':' || c == '.'
}

/// Splits off the text between two delimiters, if the text begins with the first.
fn between(text: &str, open: char, close: char) -> (Option<&str>, &str) {
    match text.strip_prefix(open).and_then(|inner| inner.split_once(close)) {
        Some((inner, after)) => (Some(inner), after),
        None => (None, text),
    }
}

#[test]
fn strings_are_no_selectors() {
    let found = selectors(r#"label_replace(a{x="y"}, "b", "$1", "c", "(.*)d") + e"#);
    let seen: Vec<_> = found.iter().map(|one| (one.metric, one.around.join(" "))).collect();

    assert_eq!(seen, [("a", "label_replace".to_owned()), ("e", String::new())]);
}

#[test]
fn selectors_are_found_with_what_surrounds_them() {
    let query = "histogram_quantile(0.5, sum by (le) (max without (pod) (rate(a_bucket{x=\"y\"}[5m])))) or (b + on (c) group_left () d) / 2";
    let found = selectors(query);
    let seen: Vec<_> = found
        .iter()
        .map(|one| (one.metric, one.matchers, one.range, one.around.join(" ")))
        .collect();

    assert_eq!(
        seen,
        [
            ("a_bucket", "x=\"y\"", Some("5m"), "histogram_quantile sum max rate".to_owned()),
            ("b", "", None, String::new()),
            ("d", "", None, String::new()),
        ]
    );
}

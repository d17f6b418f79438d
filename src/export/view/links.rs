//! Links in alerts: to the web page of the affected object or to the list of findings, and to a
//! dashboard.

use std::fmt;
use std::str::FromStr;

use form_urlencoded::Serializer;
use loopwatch_model::finding::{Area, Finding, FindingInfo, Subject};

use super::object_name::ObjectName;
use crate::net::HttpUrl;

/// The URL of a web server, as people outside the cluster reach it. It ends with `/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExternalUrl(String);

/// The servers to which alerts may link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Links {
    /// loopwatch's web page.
    pub(crate) page: Option<ExternalUrl>,
    /// Grafana, with loopwatch's dashboards.
    pub(crate) grafana: Option<ExternalUrl>,
}

/// The longest URL. It becomes the value of a label.
const LONGEST: usize = 500;

/// The dashboard that shows the objects or the processes behind the findings of an area.
#[must_use]
pub(crate) fn dashboard(info: &FindingInfo) -> &'static str {
    match info.area {
        Area::Deletion | Area::Ownership | Area::References => "loopwatch-objects",
        Area::Operator | Area::Process => "loopwatch-process",
        Area::Loopwatch => "loopwatch-self",
        Area::Convergence | Area::ApiMachinery => "loopwatch-overview",
    }
}

impl Links {
    /// The label values of `loopwatch_links_info`: the URLs, empty without one.
    #[must_use]
    pub(crate) fn labels(&self) -> [String; 2] {
        [&self.page, &self.grafana]
            .map(|url| url.as_ref().map(ToString::to_string).unwrap_or_default())
    }

    /// The link of an alert with these findings: the page of their only object, or the list of
    /// findings if there are several or if they are not about objects. The alert rules build the
    /// same links (`rules.rs`).
    #[must_use]
    pub(crate) fn page(&self, findings: &[&Finding]) -> Option<String> {
        let (ExternalUrl(page), first) = (self.page.as_ref()?, findings.first()?);
        Some(match (&first.subject, findings) {
            (Subject::Object { group, kind, namespace, name }, [_]) => {
                page.clone() + &ObjectName { group, kind, namespace, name }.path()
            }
            (subject, _) => {
                let words = [first.code.name(), subject.namespace()].join(" ");
                let mut list = Serializer::for_suffix(format!("{page}?"), page.len() + 1);
                list.append_pair("filter", words.trim_end()).finish() + "#findings"
            }
        })
    }

    /// The dashboard for an alert with these findings.
    #[must_use]
    pub(crate) fn dashboard(&self, findings: &[&Finding]) -> Option<String> {
        let (ExternalUrl(grafana), first) = (self.grafana.as_ref()?, findings.first()?);
        let path = format!("{grafana}d/{}?", dashboard(first.info()));
        let mut link = Serializer::for_suffix(path.clone(), path.len());

        if let Subject::Object { kind, .. } | Subject::Kind { kind, .. } = &first.subject {
            link.append_pair("var-kind", kind);
        }

        if let Subject::Object { namespace, .. } = &first.subject
            && !namespace.is_empty()
        {
            link.append_pair("var-target_namespace", namespace);
        }

        Some(link.finish().trim_end_matches('?').to_owned())
    }
}

impl FromStr for ExternalUrl {
    type Err = String;

    /// The error does not quote the URL, which may contain a secret.
    fn from_str(text: &str) -> Result<Self, String> {
        let is_usual = |c: char| c.is_ascii_alphanumeric() || "-._~:/[]@!$&'()*+,;=%?#".contains(c);
        if !text.chars().all(is_usual) {
            return Err("the URL contains a character that must be percent-encoded".to_owned());
        }

        if text.len() > LONGEST {
            return Err(format!("the URL is longer than {LONGEST} bytes"));
        }

        HttpUrl::parse(text, "/").map_err(|error| error.to_string())?;
        if text.contains(['?', '#']) {
            return Err("expected a URL without a query (?) and a fragment (#)".to_owned());
        }

        Ok(Self(format!("{}/", text.trim_end_matches('/'))))
    }
}

impl fmt::Display for ExternalUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use loopwatch_model::finding::{FINDINGS, FindingCode};

    use super::*;
    use crate::export::sample;

    fn links() -> Links {
        let url = |text: &str| Some(text.parse().expect("a URL"));
        Links {
            page: url("https://loopwatch.example/team-a"),
            grafana: url("https://grafana.example/"),
        }
    }

    #[test]
    fn one_object_has_its_page_and_several_have_the_list() {
        let mut finding = sample::sample().snapshot.findings[0].clone();
        let name = "<b>&name=x\u{202e}\"%".to_owned();
        finding.subject = Subject::Object {
            group: String::new(),
            kind: "Config Map".to_owned(),
            namespace: "team a".to_owned(),
            name,
        };

        let code = finding.code.name();
        assert_eq!(
            links().page(&[&finding]).expect("a link"),
            "https://loopwatch.example/team-a/object?group=core&kind=Config+Map&namespace=team+a\
             &name=%3Cb%3E%26name%3Dx%E2%80%AE%22%25"
        );

        let list = format!("https://loopwatch.example/team-a/?filter={code}+team+a#findings");
        assert_eq!(links().page(&[&finding, &finding]), Some(list));

        finding.subject =
            Subject::Kind { group: "example.io".to_owned(), kind: "Widget".to_owned() };
        let list = format!("https://loopwatch.example/team-a/?filter={code}#findings");

        assert_eq!(links().page(&[&finding]), Some(list));
        assert_eq!(Links::default().page(&[&finding]), None);
        assert_eq!(links().page(&[]), None);
    }

    #[test]
    fn each_finding_has_a_dashboard_that_exists() {
        for info in FINDINGS {
            let path =
                format!("{}/dashboards/{}.json", env!("CARGO_MANIFEST_DIR"), dashboard(info));

            assert!(std::path::Path::new(&path).exists(), "{path}");
        }

        let mut finding = sample::sample().snapshot.findings[0].clone();
        finding.code = FindingCode::FinalizerStuck;
        finding.subject = Subject::Object {
            group: "example.io".to_owned(),
            kind: "Widget".to_owned(),
            namespace: "a&b".to_owned(),
            name: "web".to_owned(),
        };

        let link = "https://grafana.example/d/loopwatch-objects?var-kind=Widget&var-target_namespace=a%26b";
        assert_eq!(links().dashboard(&[&finding]).as_deref(), Some(link));

        finding.subject = Subject::Source { name: "discovery".to_owned() };
        assert_eq!(
            links().dashboard(&[&finding]).as_deref(),
            Some("https://grafana.example/d/loopwatch-objects")
        );
        assert_eq!(Links::default().dashboard(&[&finding]), None);
    }

    #[test]
    fn a_url_ends_with_a_slash() {
        for (text, expected) in [
            ("https://loopwatch.example", "https://loopwatch.example/"),
            ("https://loopwatch.example/", "https://loopwatch.example/"),
            ("http://[::1]:9917/prefix//", "http://[::1]:9917/prefix/"),
        ] {
            assert_eq!(
                text.parse::<ExternalUrl>().map(|url| url.to_string()),
                Ok(expected.to_owned())
            );
        }
    }

    #[test]
    fn a_wrong_url_is_explained() {
        for (text, expected) in [
            ("loopwatch.example", "expected http:// or https://"),
            ("javascript:alert(1)", "expected http:// or https://"),
            ("https://", "expected http:// or https://"),
            ("https://user:S3CRET@loopwatch.example", "a user or a password"),
            ("https://loopwatch.example/?token=S3CRET", "without a query"),
            ("https://loopwatch.example/#findings", "without a query"),
            ("https://loopwatch.example/\"><script>", "percent-encoded"),
            ("https://loopwatch.example/{{ externalURL }}", "percent-encoded"),
            ("https://loopwatch.example/ü", "percent-encoded"),
            (&format!("https://loopwatch.example/{}", "a".repeat(500)), "longer than"),
        ] {
            let error = text.parse::<ExternalUrl>().expect_err(text);
            assert!(error.contains(expected) && !error.contains("S3CRET"), "{text}: {error}");
        }
    }
}

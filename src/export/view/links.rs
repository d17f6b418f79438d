//! Links in alerts: to the web page of the affected object or to the list of findings, to a
//! dashboard, and to a runbook.

use std::fmt;
use std::str::FromStr;

use form_urlencoded::Serializer;
use loopwatch_model::finding::{Area, Finding, FindingInfo, Subject};

use super::object_name::ObjectName;
use super::runbooks::runbook_path;
use crate::net::HttpUrl;

/// The URL of a web server, as people outside the cluster reach it. It ends with `/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExternalUrl(String);

/// The URL of the user's own runbooks. It contains [`NAME`] in the place of the name of a runbook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunbookUrl(String);

/// The servers to which alerts may link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Links {
    /// loopwatch's web page.
    pub(crate) page: Option<ExternalUrl>,
    /// Grafana, with loopwatch's dashboards.
    pub(crate) grafana: Option<ExternalUrl>,
    /// The user's own runbooks, instead of those on the page.
    pub(crate) runbooks: Option<RunbookUrl>,
}

/// The longest URL. It becomes the value of a label.
const LONGEST: usize = 500;

/// The place of a runbook's name in a [`RunbookUrl`]. The alert rules replace it, too (`rules.rs`).
const NAME: &str = "NAME";

/// The dashboard that shows the objects or the processes behind the findings of an area.
#[must_use]
pub(crate) fn dashboard(info: &FindingInfo) -> &'static str {
    match info.area {
        Area::Deletion | Area::Ownership | Area::References => "loopwatch-objects",
        Area::Operator | Area::Process => "loopwatch-process",
        Area::Loopwatch => "loopwatch-self",
        Area::Convergence | Area::Writes | Area::ApiMachinery => "loopwatch-overview",
    }
}

impl Links {
    /// The label values of `loopwatch_links_info`: the URLs, empty without one.
    #[must_use]
    pub(crate) fn labels(&self) -> [String; 3] {
        let [page, grafana] = [&self.page, &self.grafana]
            .map(|url| url.as_ref().map(ToString::to_string).unwrap_or_default());
        let runbooks = self.runbooks.as_ref().map(|RunbookUrl(url)| url.clone());

        [page, grafana, runbooks.unwrap_or_default()]
    }

    /// The link to a runbook: to the user's own, or to that on the page. The alert rules build the
    /// same links (`rules.rs`).
    #[must_use]
    pub(crate) fn runbook(&self, name: &str) -> Option<String> {
        match (&self.runbooks, &self.page) {
            (Some(RunbookUrl(url)), _) => Some(url.replace(NAME, name)),
            (None, Some(ExternalUrl(page))) => Some(format!("{page}{}", runbook_path(name))),
            (None, None) => None,
        }
    }

    /// The link of an alert with these findings: the page of their only object, or the list of
    /// findings if there are several or if they are not about objects. The alert rules build the
    /// same links (`rules.rs`).
    #[must_use]
    pub(crate) fn page(&self, findings: &[&Finding]) -> Option<String> {
        let (ExternalUrl(page), first) = (self.page.as_ref()?, findings.first()?);
        Some(match (&first.subject, findings) {
            (Subject::Object { group, kind, namespace, name }, [_])
                if (ObjectName { group, kind, namespace, name }).may_have_page() =>
            {
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

    fn from_str(text: &str) -> Result<Self, String> {
        check_url(text)?;
        if text.contains(['?', '#']) {
            return Err("expected a URL without a query (?) and a fragment (#)".to_owned());
        }

        Ok(Self(format!("{}/", text.trim_end_matches('/'))))
    }
}

impl FromStr for RunbookUrl {
    type Err = String;

    /// Appends the place of the name if the URL has none.
    fn from_str(text: &str) -> Result<Self, String> {
        check_url(text)?;
        match text.contains(NAME) {
            true => Ok(Self(text.to_owned())),
            false => Ok(Self(format!("{}/{NAME}", text.trim_end_matches('/')))),
        }
    }
}

impl fmt::Display for ExternalUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Checks the URL of a web server that people open. The error does not quote the URL, which may
/// contain a secret.
fn check_url(text: &str) -> Result<(), String> {
    let is_usual = |c: char| c.is_ascii_alphanumeric() || "-._~:/[]@!$&'()*+,;=%?#".contains(c);
    if !text.chars().all(is_usual) {
        return Err("the URL contains a character that must be percent-encoded".to_owned());
    }

    if text.len() > LONGEST {
        return Err(format!("the URL is longer than {LONGEST} bytes"));
    }

    HttpUrl::parse(text, "/").map(|_| ()).map_err(|error| error.to_string())
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
            runbooks: None,
        }
    }

    #[test]
    fn a_runbook_is_the_users_own_or_that_on_the_page() {
        let of = |url: &str| {
            let runbooks = Some(url.parse().expect("a URL"));
            Links { runbooks, ..links() }.runbook("Overdue")
        };
        let on_page = "https://loopwatch.example/team-a/runbooks/Overdue";

        assert_eq!(links().runbook("Overdue").as_deref(), Some(on_page));
        assert_eq!(Links { page: None, ..links() }.runbook("Overdue"), None);

        for (url, expected) in [
            ("https://wiki.example/loopwatch/", "https://wiki.example/loopwatch/Overdue"),
            ("https://git.example/docs/NAME.md", "https://git.example/docs/Overdue.md"),
            ("https://wiki.example/?page=NAME", "https://wiki.example/?page=Overdue"),
        ] {
            assert_eq!(of(url).as_deref(), Some(expected));
        }

        for wrong in ["wiki.example", "javascript:NAME", "https://wiki.example/{{ NAME }}"] {
            assert!(wrong.parse::<RunbookUrl>().is_err(), "{wrong}");
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

        assert_eq!(links().page(&[&finding]), Some(list.clone()));

        finding.subject = Subject::Object {
            group: String::new(),
            kind: "Namespace".to_owned(),
            namespace: String::new(),
            name: "team-a".to_owned(),
        };
        assert_eq!(links().page(&[&finding]), Some(list), "loopwatch has no page for it");

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

//! The two text forms of `/metrics`: OpenMetrics for a client that asks for it, and for every other client the classic
//! one of Prometheus.

use std::fmt::Write;

use hyper::HeaderMap;
use hyper::header::ACCEPT;

/// How the metrics are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// Prometheus' text format 0.0.4.
    Classic,
}

impl Form {
    /// OpenMetrics when the client names it, and does not name the classic form as the better one. A client that takes
    /// anything (`*/*`) may not know it.
    pub(super) fn accepted(headers: &HeaderMap) -> Self {
        let (mut openmetrics, mut classic) = (0.0, 0.0_f32);
        let lines = headers.get_all(ACCEPT).into_iter();
        let ranges = lines.filter_map(|line| line.to_str().ok());
        for range in ranges.flat_map(|line| line.split(',')) {
            let (kind, parameters) = range.split_once(';').unwrap_or((range, ""));
            let parameter = |name: &str| {
                let named = |parameter: &str| {
                    let (found, value) = parameter.split_once('=')?;
                    let is_it = found.trim().eq_ignore_ascii_case(name);
                    is_it.then(|| value.trim().trim_matches('"').to_owned())
                };
                parameters.split(';').find_map(named)
            };
            let quality: f32 = match parameter("q") {
                None => 1.0,
                Some(value) => value.parse().unwrap_or(0.0),
            };
            let is_version = |ours: &str| parameter("version").is_none_or(|asked| asked == ours);
            match kind.trim().to_ascii_lowercase().as_str() {
                "application/openmetrics-text" if is_version("1.0.0") => {
                    openmetrics = quality.max(openmetrics);
                }
                "text/plain" if is_version("0.0.4") => classic = quality.max(classic),
                _ => {}
            }
        }
        match openmetrics > 0.0 && openmetrics >= classic {
            true => Self::OpenMetrics,
            false => Self::Classic,
        }
    }

    /// The `Content-Type` of an answer.
    pub(super) fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Classic => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// A whole text of OpenMetrics, in this form.
    pub(super) fn of(self, openmetrics: String) -> String {
        match self {
            Self::OpenMetrics => openmetrics,
            Self::Classic => classic(&openmetrics),
        }
    }
}

/// The samples are the same. The classic form has no units and no end, its counters are named with `_total`, and it has no
/// type for information.
fn classic(openmetrics: &str) -> String {
    let mut text = String::with_capacity(openmetrics.len());
    let mut help = "";
    for line in openmetrics.lines() {
        if let Some(family) = line.strip_prefix("# HELP ") {
            help = family.split_once(' ').map_or("", |(_, words)| words);
        } else if let Some((name, kind)) = line
            .strip_prefix("# TYPE ")
            .and_then(|family| family.split_once(' '))
        {
            let (ending, kind) = match kind {
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                kind => ("", kind),
            };
            let _ = writeln!(
                text,
                "# HELP {name}{ending} {help}\n# TYPE {name}{ending} {kind}"
            );
        } else if !line.starts_with('#') {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    #[test]
    fn openmetrics_is_for_clients_that_ask_for_it() {
        let accepted = |lines: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(ACCEPT, HeaderValue::from_static(line));
            }
            Form::accepted(&headers)
        };
        // Prometheus 3, with its default protocols and with the classic one first.
        let prometheus = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,\
                          application/openmetrics-text;version=0.0.1;q=0.4,\
                          text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1";
        let classic_first = "text/plain;version=0.0.4;q=0.6,application/openmetrics-text;version=1.0.0;q=0.5,*/*;q=0.1";
        for (lines, form) in [
            (&[prometheus][..], Form::OpenMetrics),
            (&["application/openmetrics-text"], Form::OpenMetrics),
            (
                &[
                    "text/plain",
                    "APPLICATION/OpenMetrics-Text; Version=\"1.0.0\"",
                ],
                Form::OpenMetrics,
            ),
            (&[classic_first], Form::Classic),
            (
                &["application/openmetrics-text; version=0.0.1"],
                Form::Classic,
            ),
            (&["application/openmetrics-text;q=0"], Form::Classic),
            (&["application/openmetrics-text;q=much"], Form::Classic),
            (&["*/*"], Form::Classic),
            (&["text/html,application/*;q=0.9"], Form::Classic),
            (&[""], Form::Classic),
            (&[], Form::Classic),
        ] {
            assert_eq!(accepted(lines), form, "{lines:?}");
        }
    }

    #[test]
    fn the_classic_form_has_the_same_samples() {
        let openmetrics = "# HELP a_build Which.\n# TYPE a_build info\na_build_info{version=\"1\"} 1\n\
             # HELP a_cpu_seconds How long.\n# TYPE a_cpu_seconds counter\n# UNIT a_cpu_seconds seconds\n\
             a_cpu_seconds_total 1.5\n# HELP a_n How many.\n# TYPE a_n gauge\na_n{db=\"# TYPE \\n\"} 2\n# EOF\n";
        assert_eq!(
            Form::Classic.of(openmetrics.to_owned()),
            "# HELP a_build_info Which.\n# TYPE a_build_info gauge\na_build_info{version=\"1\"} 1\n\
             # HELP a_cpu_seconds_total How long.\n# TYPE a_cpu_seconds_total counter\na_cpu_seconds_total 1.5\n\
             # HELP a_n How many.\n# TYPE a_n gauge\na_n{db=\"# TYPE \\n\"} 2\n"
        );
        assert_eq!(Form::OpenMetrics.of(openmetrics.to_owned()), openmetrics);
    }
}

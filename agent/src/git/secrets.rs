//! What a URL may show in the log: scheme, host and path. User name, password and query often carry a token.

use std::borrow::Cow;

const MASK: &str = "***";

/// `text` with the userinfo and the query of every URL in it masked.
pub(super) fn masked(text: &str) -> Cow<'_, str> {
    if !text.contains("://") {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, url) = rest.split_at(at + 3);
        // A quote may be a part of a secret: only white space ends it for certain.
        let end = url.find(|c: char| c.is_whitespace() || c.is_control()).unwrap_or(url.len());
        let (url, after) = url.split_at(end);
        // Another one may follow without a space: `from 'https://a','https://b'`.
        let next =
            url.find("://").map_or(url.len(), |at| url[..at].rfind(is_no_scheme).map_or(0, |at| at + 1));
        let (url, joined) = url.split_at(next);
        out.push_str(before);
        push_url(&mut out, url);
        rest = if joined.is_empty() { after } else { &rest[before.len() + url.len()..] };
    }
    out.push_str(rest);
    Cow::Owned(out)
}

fn is_no_scheme(c: char) -> bool {
    !(c.is_ascii_alphanumeric() || "+.-".contains(c))
}

fn push_url(out: &mut String, url: &str) {
    let host = match userinfo(url) {
        Some(end) => {
            out.push_str(MASK);
            &url[end..]
        }
        None => url,
    };
    match host.find(['?', '#']) {
        Some(at) => {
            let (path, query) = host.split_at(at + 1);
            out.push_str(path);
            out.push_str(MASK);
            // The quotes and stops that a sentence puts behind a URL.
            let kept = query.trim_end_matches(|c: char| "'\"`:;,.)]>".contains(c)).len();
            out.push_str(&query[kept..]);
        }
        None => out.push_str(host),
    }
}

/// Where the `@` is that ends the userinfo. A password with a slash is not well formed, but still a secret.
fn userinfo(url: &str) -> Option<usize> {
    let authority = url.find(['/', '?', '#']).unwrap_or(url.len());
    if let Some(at) = url[..authority].rfind('@') {
        return Some(at);
    }
    let port = url[..authority].rsplit_once(':').map(|(_, port)| port)?;
    let is_port = port.bytes().all(|byte| byte.is_ascii_digit());
    (!is_port && !port.ends_with(']')).then(|| url.rfind('@')).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_masked_and_host_and_path_stay() {
        for (text, shown) in [
            ("fatal: no route", "fatal: no route"),
            ("'https://h:8443/x.git'", "'https://h:8443/x.git'"),
            ("unable to access 'https://h/x.git?token=S/': no", "unable to access 'https://h/x.git?***': no"),
            ("https://u:S@h/x?token=S#S", "https://***@h/x?***"),
            ("https://S@h:1/x", "https://***@h:1/x"),
            ("ssh://git@h/x and http://a/b?S.", "ssh://***@h/x and http://a/b?***."),
            ("https://u:S@S@h/x", "https://***@h/x"),
            ("https://u:S/S@h/x", "https://***@h/x"),
            ("https://h/x?a='S&token=S'", "https://h/x?***'"),
            ("https://[::1]:80/@x", "https://[::1]:80/@x"),
            ("https://[::1]/@x", "https://[::1]/@x"),
            ("https://h/npm/@x", "https://h/npm/@x"),
            ("'https://u:S@a/b','http://v:S@c/d?S',", "'https://***@a/b','http://***@c/d?***',"),
            ("git@h:x.git", "git@h:x.git"),
            ("https://h#S", "https://h#***"),
            ("://", "://"),
            ("https://", "https://"),
            ("a://b://c://S@d", "a://b://c://***@d"),
            ("https://é:S@ü/ß?S", "https://***@ü/ß?***"),
        ] {
            assert_eq!(masked(text), shown);
        }
    }
}

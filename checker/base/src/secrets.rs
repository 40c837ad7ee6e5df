//! Masking of URLs for the log, which may show scheme, host and path. User name, password and query often have a token.

const MASK: &str = "***";

/// `text` with the userinfo and the query of every URL in it masked.
pub fn masked(text: &str) -> String {
    let mut parts = text.split("://").peekable();
    let mut out = parts.next().unwrap_or_default().to_owned();
    while let Some(part) = parts.next() {
        // A quote may be a part of a secret: only white space ends a URL for certain.
        let end = match part.find(|c: char| c.is_whitespace() || c.is_control()) {
            Some(end) => end,
            None if parts.peek().is_none() => part.len(),
            // Another URL follows without a space: `from 'https://a','https://b'`.
            None => part
                .trim_end_matches(|c: char| c.is_ascii_alphanumeric() || "+.-".contains(c))
                .len(),
        };
        out.push_str("://");
        push_url(&mut out, &part[..end]);
        out.push_str(&part[end..]);
    }
    out
}

/// A URL alone, whose path cannot have an `@`: all that stands before the last one is masked, whatever is in it.
pub fn masked_url(url: &str) -> String {
    let scheme = url.find("://").map_or(0, |at| at + 3);
    let (scheme, rest) = url.split_at(scheme);
    let mut out = scheme.to_owned();
    push_url(&mut out, &rest[rest.rfind('@').unwrap_or(0)..]);
    out
}

/// Masks what follows `://`.
fn push_url(out: &mut String, url: &str) {
    let host = match userinfo(url) {
        Some(end) => {
            out.push_str(MASK);
            &url[end..]
        }
        None => url,
    };
    let (path, query) = host.split_at(host.find(['?', '#']).map_or(host.len(), |at| at + 1));
    out.push_str(path);
    if path.ends_with(['?', '#']) {
        out.push_str(MASK);
        // The quotes and stops that a sentence puts behind a URL.
        let kept = query
            .trim_end_matches(|c: char| "'\"`:;,.)]>".contains(c))
            .len();
        out.push_str(&query[kept..]);
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
    (!is_port && !port.ends_with(']'))
        .then(|| url.rfind('@'))
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_masked_and_host_and_path_stay() {
        for (text, shown) in [
            ("fatal: no route", "fatal: no route"),
            ("'https://h:8443/x.git'", "'https://h:8443/x.git'"),
            (
                "unable to access 'https://h/x.git?token=S/': no",
                "unable to access 'https://h/x.git?***': no",
            ),
            ("https://u:S@h/x?token=S#S", "https://***@h/x?***"),
            ("https://S@h:1/x", "https://***@h:1/x"),
            (
                "ssh://git@h/x and http://a/b?S.",
                "ssh://***@h/x and http://a/b?***.",
            ),
            ("https://u:S@S@h/x", "https://***@h/x"),
            ("https://u:S/S@h/x", "https://***@h/x"),
            ("https://h/x?a='S&token=S'", "https://h/x?***'"),
            ("https://[::1]:80/@x", "https://[::1]:80/@x"),
            ("https://[::1]/@x", "https://[::1]/@x"),
            ("https://h/npm/@x", "https://h/npm/@x"),
            (
                "'https://u:S@a/b','http://v:S@c/d?S',",
                "'https://***@a/b','http://***@c/d?***',",
            ),
            ("git@h:x.git", "git@h:x.git"),
            ("https://h#S", "https://h#***"),
            ("://", "://"),
            ("https://", "https://"),
            ("a://b://c://S@d", "a://b://c://***@d"),
            ("https://é:S@ü/ß?S", "https://***@ü/ß?***"),
            ("https://S@h/é://é://x", "https://***@h/é://é://x"),
        ] {
            assert_eq!(masked(text), shown);
        }
    }

    #[test]
    fn a_url_alone_shows_nothing_that_stands_before_its_host() {
        for (url, shown) in [
            ("etcd://h:1,g:2/p", "etcd://h:1,g:2/p"),
            ("etcd://u:S@h:1/p", "etcd://***@h:1/p"),
            ("etcd://u:1/S@h:1/p", "etcd://***@h:1/p"),
            ("etcd://u:S S@h:1,u:S,@g:2/p?S", "etcd://***@g:2/p?***"),
            ("u:S@h:1/p", "***@h:1/p"),
            ("@", "***@"),
            ("", ""),
        ] {
            assert_eq!(masked_url(url), shown);
        }
    }
}

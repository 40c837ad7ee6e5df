//! The place: where `git push` would push this branch, and nowhere else. From git's settings alone, so this is pure.
//!
//! The rules are those of git's own `push` and `remote` (git-push(1), git-config(1)). A push that git would refuse is
//! refused here, with git's reason ([`NoPlace`]). So is a push that would do more than bring this branch to a branch.
//!
//! # Limits
//! - Remotes in the files `.git/remotes` and `.git/branches`, which git still reads, are not known here.
//! - A branch name that is short on both sides of a `remote.NAME.push` is taken for a branch, never for a tag.

use crate::GitSettings;

#[cfg(test)]
mod tests;
mod words;

/// Where a branch is pushed to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PushPlace {
    /// The argument for `git push`: a remote, or the URL that stands in its place in the settings.
    pub remote: String,
    /// The URLs of a push, as git rewrites them. At least one.
    pub urls: Vec<String>,
    /// The full name of the branch there.
    pub branch: String,
    /// Its copy here, `refs/remotes/origin/main`. `None` where that proves nothing: a push goes to another URL than a
    /// fetch, or to several, or no fetch refspec names the branch.
    pub(crate) tracking: Option<String>,
    /// `push.autoSetupRemote`: the first push makes the place the upstream.
    pub sets_upstream: bool,
    /// `push.default` is `matching`: a push changes the branch there, and never makes it.
    pub must_be_there: bool,
}

/// Why `git push` would refuse, or would do what only a person may want.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoPlace {
    /// There is no remote.
    NoRemote,
    /// The branch has no upstream. With the remote that git would push to, where it is a known one.
    NoUpstream {
        /// The remote that git would push to.
        remote: Option<String>,
    },
    /// The upstream is a branch of this repository. With the remote as above.
    UpstreamIsHere {
        /// The remote that git would push to.
        remote: Option<String>,
    },
    /// The branch has several upstreams.
    SeveralUpstreams {
        /// The remote.
        remote: String,
    },
    /// `push.default` is `simple`, and the upstream has another name.
    OtherName {
        /// The remote.
        remote: String,
        /// The branch that the settings name.
        upstream: String,
    },
    /// `push.default` is `upstream`, and the branch is pushed to another remote than the upstream's.
    OtherRemote {
        /// The remote.
        remote: String,
        /// The branch that the settings name.
        upstream: String,
    },
    /// `push.default` is `nothing`.
    Nothing,
    /// A setting names a remote or a URL that is none, as people do who switch pushing off.
    Off {
        /// The key of the setting.
        setting: String,
        /// Its value.
        value: String,
    },
    /// The upstream's remote is not there.
    Gone {
        /// The key of the setting.
        setting: String,
        /// Its value.
        value: String,
    },
    /// The remote has no URL.
    NoUrl {
        /// The remote.
        remote: String,
    },
    /// The remote has no fetch refspec, as in a bare clone. With the upstream's branch there.
    NoFetch {
        /// The remote.
        remote: String,
        /// The branch that the settings name.
        upstream: String,
    },
    /// A push to the remote overwrites everything there.
    Mirror {
        /// The remote.
        remote: String,
    },
    /// `remote.NAME.push` does not name the branch.
    NotNamed {
        /// The remote.
        remote: String,
    },
    /// `remote.NAME.push` brings the branch to something else than a branch.
    NotABranch {
        /// The remote.
        remote: String,
        /// The full name of the ref there.
        to: String,
    },
    /// `remote.NAME.push` brings the branch to several branches.
    SeveralBranches {
        /// The remote.
        remote: String,
    },
}

/// The upstream of a branch, as the settings name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamSetting {
    /// A remote, or a URL in the place of one.
    pub remote: String,
    /// The full name of the branch there.
    pub branch: String,
    /// The first URL of a fetch, as git rewrites it.
    pub url: String,
    /// Its copy here, `refs/remotes/origin/main`; `None` where no fetch refspec names the branch.
    pub(crate) tracking: Option<String>,
    /// Whether the settings have a remote of this name.
    pub(crate) is_named: bool,
}

impl UpstreamSetting {
    /// The one upstream of a branch; `None` where it has none, several, or one in this repository.
    pub fn of(settings: &GitSettings, branch: &str) -> Option<Self> {
        let remote = settings.get(&format!("branch.{branch}.remote"))?;
        let merges = settings.all(&format!("branch.{branch}.merge"));
        let &[merge] = merges.as_slice() else {
            return None;
        };
        let url = fetch_url(settings, remote)?;
        let is_followed = remote != "." && merge.starts_with("refs/heads/");
        is_followed.then(|| Self {
            remote: remote.to_owned(),
            branch: merge.to_owned(),
            url,
            tracking: tracked(settings, remote, merge),
            is_named: is_remote(settings, remote),
        })
    }
}

/// Finds the place of a branch, given without `refs/heads/`. `is_dir` tells whether a word without a slash, where git
/// takes it for a URL, is a directory.
pub fn find(
    settings: &GitSettings,
    branch: &str,
    is_dir: &dyn Fn(&str) -> bool,
) -> Result<PushPlace, NoPlace> {
    let look = Look {
        settings,
        branch,
        full: format!("refs/heads/{branch}"),
    };
    let (remote, setting) = look.remote();
    if setting.is_none() && settings.remotes().is_empty() {
        return Err(NoPlace::NoRemote);
    }
    let is_of_branch = setting.as_deref() == Some(&*look.key("remote"));
    if remote == "." {
        let remote = look.to_name();
        return Err(NoPlace::UpstreamIsHere { remote });
    }
    let urls = push_urls(settings, &remote, setting.is_some());
    // A word that stands where a URL should be: a person who switches pushing off writes one.
    let off = |url: &&PushUrl| {
        let word = match &url.setting {
            UrlSetting::PushInsteadOf(base) => base,
            _ => &url.url,
        };
        let is_word = !word.contains(['/', ':']) && !is_dir(&url.url);
        url.setting != UrlSetting::Url && (is_word || url.url == "/dev/null")
    };
    if let Some(url) = urls.iter().find(off) {
        let setting = match &url.setting {
            UrlSetting::PushUrl => format!("remote.{remote}.pushurl"),
            UrlSetting::PushInsteadOf(base) => format!("url.{base}.pushInsteadOf"),
            UrlSetting::Name | UrlSetting::Url => setting.unwrap_or_default(),
        };
        let value = url.url.clone();
        return Err(match is_of_branch && url.setting == UrlSetting::Name {
            true => NoPlace::Gone { setting, value },
            false => NoPlace::Off { setting, value },
        });
    }
    if urls.is_empty() {
        return Err(match settings.remotes().contains(&&*remote) {
            true => NoPlace::NoUrl { remote },
            false => NoPlace::NoUpstream { remote: None },
        });
    }
    if settings.is_true(&format!("remote.{remote}.mirror")) {
        return Err(NoPlace::Mirror { remote });
    }
    let destination = look.destination(&remote);
    if matches!(destination, Ok(_) | Err(NoPlace::NoUpstream { .. }))
        && let Some(upstream) = look.without_fetch(&remote)
    {
        return Err(NoPlace::NoFetch { remote, upstream });
    }
    let (to, how) = destination?;
    let urls: Vec<_> = urls.into_iter().map(|url| url.url).collect();
    let is_fetched = fetch_url(settings, &remote).as_ref() == urls.first();
    Ok(PushPlace {
        tracking: tracked(settings, &remote, &to).filter(|_| is_fetched && urls.len() == 1),
        remote,
        urls,
        branch: to,
        sets_upstream: how == How::SetsUpstream,
        must_be_there: how == How::Matching,
    })
}

/// Whether a push also sets the upstream, or needs the branch to be there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    Plain,
    SetsUpstream,
    Matching,
}

struct Look<'a> {
    settings: &'a GitSettings,
    branch: &'a str,
    full: String,
}

impl Look<'_> {
    fn key(&self, name: &str) -> String {
        format!("branch.{}.{name}", self.branch)
    }

    /// The remote of a push, and the setting that names it.
    fn remote(&self) -> (String, Option<String>) {
        let named = [
            (self.key("pushremote"), "pushRemote"),
            ("remote.pushdefault".to_owned(), ""),
            (self.key("remote"), "remote"),
        ];
        for (key, name) in named {
            if let Some(remote) = self.settings.get(&key) {
                let setting = match name {
                    "" => "remote.pushDefault".to_owned(),
                    name => self.key(name),
                };
                return (remote.to_owned(), Some(setting));
            }
        }
        (self.only_remote(), None)
    }

    /// The remote of a fetch where no setting names one: the only remote, else `origin`.
    fn only_remote(&self) -> String {
        match self.settings.remotes().as_slice() {
            [only] => (*only).to_owned(),
            _ => "origin".to_owned(),
        }
    }

    /// The remote for a command that makes the upstream, where it is plain which one.
    fn to_name(&self) -> Option<String> {
        let named = self.settings.get("remote.pushdefault").map(str::to_owned);
        let remote = named.unwrap_or_else(|| self.only_remote());
        self.settings
            .has(&format!("remote.{remote}.url"))
            .then_some(remote)
    }

    /// The remote and the branch of the upstream: what git counts as one.
    fn upstream_name(&self) -> Option<(String, String)> {
        let remote = self.settings.get(&self.key("remote"))?;
        let merge = self.settings.all(&self.key("merge")).pop()?;
        let name = merge.strip_prefix("refs/heads/").unwrap_or(merge);
        Some((remote.to_owned(), name.to_owned()))
    }

    /// The upstream's branch, where its remote is this one and git fetches nothing from there; else `None`.
    fn without_fetch(&self, remote: &str) -> Option<String> {
        let (at, name) = match self.upstream_name() {
            Some(upstream) => upstream,
            None => (self.only_remote(), self.branch.to_owned()),
        };
        let is_its = at == remote && is_remote(self.settings, remote);
        (is_its && !self.settings.has(&format!("remote.{remote}.fetch"))).then_some(name)
    }

    /// The full name of the branch at the remote.
    fn destination(&self, remote: &str) -> Result<(String, How), NoPlace> {
        let specs = format!("remote.{remote}.push");
        let specs = self.settings.all(&specs);
        if !specs.is_empty() {
            return self.by_refspecs(remote, &specs);
        }
        let own = self.settings.get(&self.key("remote"));
        let fetched = own.map_or_else(|| self.only_remote(), str::to_owned);
        let is_same = fetched == remote;
        let merges = match own {
            // Without a remote git does not count them.
            None => Vec::new(),
            Some(_) => self.settings.all(&self.key("merge")),
        };
        let sets = self.settings.is_true("push.autosetupremote");
        let how = match sets && merges.is_empty() {
            true => How::SetsUpstream,
            false => How::Plain,
        };
        let upstream = || match merges.as_slice() {
            [] if sets => Ok(self.full.as_str()),
            [] => Err(NoPlace::NoUpstream {
                remote: is_remote(self.settings, remote).then(|| remote.to_owned()),
            }),
            [merge] => Ok(*merge),
            _ => Err(NoPlace::SeveralUpstreams {
                remote: remote.to_owned(),
            }),
        };
        let other = |upstream: String| NoPlace::OtherRemote {
            remote: remote.to_owned(),
            upstream,
        };
        match self.settings.get("push.default").unwrap_or("simple") {
            "nothing" => Err(NoPlace::Nothing),
            "matching" => Ok((self.full.clone(), How::Matching)),
            "current" => Ok((self.full.clone(), how)),
            "upstream" | "tracking" if !is_same => Err(other(fetched)),
            "upstream" | "tracking" => match upstream()? {
                to if to.starts_with("refs/heads/") => Ok((to.to_owned(), how)),
                to => Err(NoPlace::NotABranch {
                    remote: remote.to_owned(),
                    to: to.to_owned(),
                }),
            },
            _ if !is_same => Ok((self.full.clone(), how)),
            _ => match upstream()? {
                to if to == self.full => Ok((self.full.clone(), how)),
                to => Err(NoPlace::OtherName {
                    remote: remote.to_owned(),
                    upstream: to.strip_prefix("refs/heads/").unwrap_or(to).to_owned(),
                }),
            },
        }
    }

    /// The full name of the branch at the remote, by the refspecs of `remote.NAME.push`.
    fn by_refspecs(&self, remote: &str, specs: &[&str]) -> Result<(String, How), NoPlace> {
        let remote = remote.to_owned();
        let is_left_out = specs.iter().any(|spec| {
            let name = spec.strip_prefix('^');
            name.is_some_and(|name| self.named_by(name).is_some())
        });
        let mut found: Vec<(String, How)> = Vec::new();
        for spec in specs.iter().filter(|spec| !spec.starts_with('^')) {
            let spec = spec.strip_prefix('+').unwrap_or(spec);
            let (from, to) = match spec.split_once(':') {
                Some(("", "")) => {
                    found.push((self.full.clone(), How::Matching));
                    continue;
                }
                Some((from, to)) => (from, to),
                None => (spec, ""),
            };
            let Some(part) = self.named_by(from) else {
                continue;
            };
            let to = match (to, to.contains('*')) {
                ("", _) => self.full.clone(),
                (to, true) => to.replacen('*', part, 1),
                (to, false) => to.to_owned(),
            };
            let to = match to.starts_with("refs/") {
                true => to,
                false => format!("refs/heads/{to}"),
            };
            if !found.iter().any(|(known, _)| *known == to) {
                found.push((to, How::Plain));
            }
        }
        match found.as_slice() {
            [] => Err(NoPlace::NotNamed { remote }),
            _ if is_left_out => Err(NoPlace::NotNamed { remote }),
            [(to, how)] if to.starts_with("refs/heads/") => Ok((to.clone(), *how)),
            [(to, _)] => Err(NoPlace::NotABranch {
                remote,
                to: to.clone(),
            }),
            _ => Err(NoPlace::SeveralBranches { remote }),
        }
    }

    /// The text for the star of a refspec's source that names this branch; "" without a star, `None` for another
    /// branch.
    fn named_by(&self, from: &str) -> Option<&str> {
        if [self.branch, "HEAD", "@", &self.full].contains(&from) {
            return Some("");
        }
        starred(from, &self.full)
    }
}

/// The part of a name that the star of a pattern stands for; `None` where the pattern does not match, or has no star.
fn starred<'a>(pattern: &str, name: &'a str) -> Option<&'a str> {
    let (before, after) = pattern.split_once('*')?;
    name.strip_prefix(before)?.strip_suffix(after)
}

/// Which setting a URL of a push comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
enum UrlSetting {
    Url,
    PushUrl,
    /// `url.BASE.pushInsteadOf`, with its base.
    PushInsteadOf(String),
    /// No setting: the text in the place of a remote's name is taken for a URL.
    Name,
}

struct PushUrl {
    url: String,
    setting: UrlSetting,
}

/// The URLs of a push to a remote. `is_given`: a setting names it, so that it may be a URL itself.
fn push_urls(settings: &GitSettings, remote: &str, is_given: bool) -> Vec<PushUrl> {
    let as_fetched = |url: &str, setting: UrlSetting| PushUrl {
        url: rewritten(settings, url, ".insteadof").0,
        setting,
    };
    let pushurls = settings.all(&format!("remote.{remote}.pushurl"));
    if !pushurls.is_empty() {
        let all = pushurls.into_iter();
        return all
            .map(|url| as_fetched(url, UrlSetting::PushUrl))
            .collect();
    }
    let urls = settings.all(&format!("remote.{remote}.url"));
    let (urls, setting) = match urls.is_empty() && is_given {
        true => (vec![remote], UrlSetting::Name),
        false => (urls, UrlSetting::Url),
    };
    let for_push = |url: &&str| {
        let (url, base) = rewritten(settings, url, ".pushinsteadof");
        let setting = UrlSetting::PushInsteadOf(base?);
        Some(PushUrl { url, setting })
    };
    // Where one is rewritten for pushes, git pushes to no other.
    let rewritten: Vec<_> = urls.iter().filter_map(for_push).collect();
    if !rewritten.is_empty() {
        return rewritten;
    }
    let all = urls.into_iter();
    all.map(|url| as_fetched(url, setting.clone())).collect()
}

/// The URL of a fetch, as git rewrites it; `None` for a word that cannot be one.
fn fetch_url(settings: &GitSettings, remote: &str) -> Option<String> {
    let urls = settings.all(&format!("remote.{remote}.url"));
    let url = match urls.first() {
        Some(url) => url,
        None if remote.contains(['/', ':']) => remote,
        None => return None,
    };
    Some(rewritten(settings, url, ".insteadof").0)
}

/// A URL with its beginning replaced by the longest that a setting `url.BASE.insteadOf` names, and that base.
fn rewritten(settings: &GitSettings, url: &str, kind: &str) -> (String, Option<String>) {
    let mut best: Option<(&str, &str)> = None;
    for (key, value) in settings.entries() {
        let base = key
            .strip_prefix("url.")
            .and_then(|key| key.strip_suffix(kind));
        let Some(base) = base.filter(|_| url.starts_with(value)) else {
            continue;
        };
        if best.is_none_or(|(_, longest)| longest.len() < value.len()) {
            best = Some((base, value));
        }
    }
    match best {
        Some((base, value)) => (
            format!("{base}{}", &url[value.len()..]),
            Some(base.to_owned()),
        ),
        None => (url.to_owned(), None),
    }
}

/// The copy here of a branch of a remote, by its fetch refspecs. Only below `refs/remotes`: elsewhere it may be a
/// branch that people work on.
fn tracked(settings: &GitSettings, remote: &str, name: &str) -> Option<String> {
    let specs = settings.all(&format!("remote.{remote}.fetch"));
    let is_named = |pattern: &str| pattern == name || starred(pattern, name).is_some();
    if specs
        .iter()
        .filter_map(|spec| spec.strip_prefix('^'))
        .any(is_named)
    {
        return None;
    }
    let copy = |spec: &&str| {
        let (from, to) = spec.strip_prefix('+').unwrap_or(spec).split_once(':')?;
        match starred(from, name) {
            Some(part) => Some(to.replacen('*', part, 1)),
            None => (from == name).then(|| to.to_owned()),
        }
    };
    let copy = specs.iter().find_map(copy)?;
    copy.starts_with("refs/remotes/").then_some(copy)
}

/// Whether the settings have a remote of this name.
fn is_remote(settings: &GitSettings, remote: &str) -> bool {
    settings.has(&format!("remote.{remote}.url"))
        || settings.has(&format!("remote.{remote}.pushurl"))
}

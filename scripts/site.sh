#!/bin/sh
# Builds the pages as a site with search, by mdBook, into site/book below the target directory; rustdoc of the three libraries is
# in api/ of it. mdBook itself is built once, below the target directory. The pages load nothing from elsewhere.
set -eu
cd "$(dirname "$0")/.."
mdbook=0.5.4
target=$(scripts/target-dir.sh)
site=$target/site
tools=$target/tools

[ "$("$tools/bin/mdbook" --version 2>/dev/null || :)" = "mdbook v$mdbook" ] ||
    "${CARGO:-cargo}" install --quiet --locked --root "$tools" --no-default-features --features search "mdbook@$mdbook"

scripts/own-dir.sh "$site"
rm -rf "$site"
scripts/own-dir.sh "$site"
mkdir -p "$site/src/docs"
# The pages lie there as they do here. Links to the sources are left as words, since the sources are not part of the site.
# README is the first page.
page() {
    page=$site/src/$(echo "$1" | sed 's/^README/index/')
    mkdir -p "$(dirname "$page")"
    sed -E -e 's#\]\(((\.\./)*)README\.md#](\1index.md#g' \
        -e 's#\[([^]]*)\]\((\.\./)*(integration|examples|checker|agent|tests|scripts|LICENSE)[^)]*\)#\1#g' "$1" >"$page"
}
# By way of a file: a git that fails at the head of a pipe would leave a site without pages.
git ls-files --cached --others --exclude-standard -- README.md ARCHITECTURE.md CONTRIBUTING.md CHANGELOG.md 'docs/*.md' \
    ':!docs/SUMMARY.md' >"$site/pages"
while read -r name; do page "$name"; done <"$site/pages"
cp -r docs/performance docs/pictures "$site/src/docs/"
sed -E -e 's#\]\(([^.)])#](docs/\1#' -e 's#\]\(\.\./#](#' -e 's#\(README#(index#' docs/SUMMARY.md >"$site/src/SUMMARY.md"
echo "- [The Rust libraries](rust.md)" >>"$site/src/SUMMARY.md"
cat >"$site/src/rust.md" <<'END'
# The Rust libraries

- [beadlock_checker](api/beadlock_checker/index.html): may this database be touched now?
- [beadlock](api/beadlock/index.html): claims, for tools
- [beadlock_fleet](api/beadlock_fleet/index.html): claims across machines
- [beadlock_records](api/beadlock_records/index.html): record files, merged by id
END
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
sed -e "s/^title = \"beadlock\"/title = \"beadlock $version\"/" -e '/^git-repository-url = ""$/d' docs/book.toml >"$site/book.toml"
cp docs/site.css "$site/"
"$tools/bin/mdbook" build "$site"
"${CARGO:-cargo}" doc --quiet --locked --no-deps -p beadlock-checker -p beadlock -p beadlock-fleet -p beadlock-records --lib --target-dir "$target/rustdoc"
cp -r "$target/rustdoc/doc" "$site/book/api"
echo "the site: $site/book/index.html"

# Sourced by the parts of `make dist-check`, and put in front of what they run in a clean place: the rows of the table.
# shellcheck shell=sh
# shellcheck disable=SC2034 # the sourcing script exits with it
status=0

row() { # ok|skipped|failed WHAT DETAIL
    printf '%s\t%s\t%s\n' "$1" "$2" "$3"
    [ "$1" != failed ] || status=1
}

# What this machine lacks. In CI it is a failure.
lacking() { # WHAT DETAIL
    case "${CI-}" in '' | 0 | false) row skipped "$1" "$2" ;; *) row failed "$1" "$2" ;; esac
}

got() { # PROGRAM [PACKAGE]: whether the program is there, or was to be had from Debian
    command -v "$1" >&2 || { [ "$(id -u)" = 0 ] && apt-get update -qq >&2 && scripts/apt-install.sh "${2:-$1}" >&2 && command -v "$1" >&2; }
}

# Whether the artefacts were built from this commit, where they are compared with a second build; else a failed row says so.
is_of_this_commit() { # WHAT
    built=$(cat "$DIST/programs/revision") || built=
    [ "$built" = "$BEADLOCK_REVISION $SOURCE_DATE_EPOCH" ] || {
        row failed "$1" "the artefacts are of '$built', not of '$BEADLOCK_REVISION $SOURCE_DATE_EPOCH'; type: make dist"
        return 1
    }
}

# A command that must succeed; the detail is the last line that it printed.
try() { # WHAT COMMAND…
    what=$1
    shift
    code=0
    said=$("$@" 2>&1) || code=$?
    last=$(printf '%s\n' "$said" | tail -n 1 | tr -s '\t ' ' ')
    if [ "$code" = 0 ]; then
        row ok "$what" "$last"
    else
        printf '%s\n' "$said" >&2
        row failed "$what" "exit code $code: $last"
    fi
}

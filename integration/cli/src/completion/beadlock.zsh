#compdef beadlock
# Completion of beadlock for zsh: the program itself names the candidates.
_beadlock() {
    local -a lines open whole
    local line value
    # Behind the -- stands another command.
    local -i at=${words[(i)--]}
    if ((at < CURRENT)); then
        shift at words
        ((CURRENT -= at))
        _normal
        return
    fi
    lines=("${(@f)$(_CLAP_IFS=$'\n' _CLAP_COMPLETE_INDEX=$((CURRENT - 1)) BEADLOCK_COMPLETE=zsh \
        beadlock -- "${(@)words[1,CURRENT]}" 2>/dev/null)}")
    for line in $lines; do
        # A colon of the value has a backslash. The first one without begins the description.
        value=${${line//\\:/$'\1'}%%:*}
        if [[ $value == *[/=$'\1'] ]]; then
            open+=("$line")
        else
            whole+=("$line")
        fi
    done
    (($#open + $#whole)) || { _files; return; }
    (($#open)) && _describe -V beadlock open -S ''
    (($#whole)) && _describe -V beadlock whole
}
if [[ $funcstack[1] == _beadlock ]]; then
    _beadlock "$@"
else
    compdef _beadlock beadlock
fi

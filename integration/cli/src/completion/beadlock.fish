# Completion of beadlock for fish: the program itself names the candidates.
complete --command beadlock --no-files --keep-order --arguments \
    "(BEADLOCK_COMPLETE=fish beadlock -- (commandline -opc) (commandline -ct) 2>/dev/null)"
# Behind the -- stands another command.
complete --command beadlock --condition 'contains -- -- (commandline -opc)' --force-files

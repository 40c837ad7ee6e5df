module beadlock-daemon

go 1.19

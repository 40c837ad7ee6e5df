module beadlock.invalid/beadlock

go 1.19

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| beadlock_tests::hostile::records(bytes));

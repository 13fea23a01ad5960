//! Feeds `fuzz_bodies::schema` with what libFuzzer makes up.
#![no_main]

#[path = "../../tests/it/fuzz_bodies.rs"]
#[expect(dead_code, reason = "one body of several")]
mod fuzz_bodies;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_bodies::schema(bytes));

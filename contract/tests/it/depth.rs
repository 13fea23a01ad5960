//! The deepest value that is read passes through everything on a small stack.

use mcpindex_contract::canonical::{MAX_DIGEST_DEPTH, canonical};
use mcpindex_contract::contract_hash::{NoContractHash, contract_hash};
use mcpindex_contract::definition::Definition;
use mcpindex_contract::digest::NoDigest;
use mcpindex_contract::json::{MAX_DEPTH, read};

const SMALL_STACK: usize = 2 << 20;

fn on_a_small_stack(test: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(SMALL_STACK).spawn(test);
    thread.unwrap().join().unwrap();
}

/// Objects, or arrays, `depth` deep.
fn nested(depth: usize, open: &str, close: &str) -> String {
    format!("{}1{}", open.repeat(depth), close.repeat(depth))
}

fn check_walks(open: &'static str, close: &'static str) {
    on_a_small_stack(move || {
        let text = nested(MAX_DEPTH, open, close);
        let document = read(&text).unwrap();
        let copy = document.clone();
        assert!(copy == document);
        assert_eq!(read(&document.value.to_pretty()).unwrap(), document);
        assert!(format!("{:?}", document.value).contains("Number"));
        assert_eq!(canonical(&document.value, None), Err(NoDigest::TooDeep));
        let pointer = if open == "[" { "/0" } else { "/a" };
        assert!(document.value.pointer(&pointer.repeat(MAX_DEPTH)).is_some());
        drop(copy);

        let tool = Definition::read(&text);
        let reason = if open == "[" {
            NoDigest::NotAnObject
        } else {
            NoDigest::TooDeep
        };
        assert_eq!(tool.no_digest(), Some(&reason));
        assert!(tool.clone() == tool);
        assert_eq!(contract_hash(&tool), Err(NoContractHash::NotATool));
    });
}

#[test]
fn the_deepest_array_that_is_read_can_be_walked_and_dropped() {
    check_walks("[", "]");
}

#[test]
fn the_deepest_object_that_is_read_can_be_walked_and_dropped() {
    check_walks("{\"a\":", "}");
}

#[test]
fn the_deepest_digested_value_has_a_canonical_text() {
    on_a_small_stack(|| {
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            // The value is level 0, so the innermost number is at the level of the number of containers.
            let text = nested(MAX_DIGEST_DEPTH, open, close);
            assert_eq!(canonical(&read(&text).unwrap().value, None), Ok(text));
            let text = nested(MAX_DIGEST_DEPTH + 1, open, close);
            assert_eq!(
                canonical(&read(&text).unwrap().value, None),
                Err(NoDigest::TooDeep)
            );
        }
    });
}

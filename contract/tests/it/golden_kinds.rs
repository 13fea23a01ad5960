//! How our kinds, in the published words, compare with what the published client told of the same steps.
//!
//! The recorded cases are shared data and not part of the project; without them this test does nothing.

use crate::figures::measure;
use crate::shared::shared;

#[test]
fn every_difference_from_the_published_kinds_is_one_we_mean() {
    let Some(shared) = shared() else { return };
    let golden = measure(&shared).golden.unwrap();
    let unexplained: Vec<String> = golden
        .different_kinds
        .iter()
        .filter(|difference| difference.explanation().is_none())
        .map(|difference| {
            format!(
                "{}: {:?} | {:?}",
                difference.id, difference.recorded, difference.ours
            )
        })
        .collect();
    assert!(unexplained.is_empty(), "{unexplained:#?}");
}

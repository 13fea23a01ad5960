//! The same work on many things, on as many cores as there are.
//!
//! Invariant: results stand in the order of what they came from, and small work stays on the thread that asks for it.

use std::num::NonZero;
use std::thread;

/// Fewer things than this are not worth a thread.
const MIN_SHARE: usize = 64;

/// `work` done on each of `things`.
pub(super) fn map<T: Sync, R: Send>(things: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let share = things.len().div_ceil(cores).max(MIN_SHARE);
    if things.len() <= share {
        return things.iter().map(work).collect();
    }
    let work = &work;
    thread::scope(|scope| {
        let threads: Vec<_> = things
            .chunks(share)
            .map(|share| scope.spawn(move || share.iter().map(work).collect::<Vec<R>>()))
            .collect();
        threads
            .into_iter()
            .flat_map(|thread| match thread.join() {
                Ok(results) => results,
                Err(panic) => std::panic::resume_unwind(panic),
            })
            .collect()
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn results_stand_in_the_order_of_what_they_came_from() {
        for many in [0, 1, 63, 64, 65, 1_000] {
            let things: Vec<usize> = (0..many).collect();
            let doubled: Vec<usize> = things.iter().map(|thing| thing * 2).collect();
            assert_eq!(super::map(&things, |thing| thing * 2), doubled);
        }
    }
}

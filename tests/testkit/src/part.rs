//! Tables with many rows: `make test` tries some of them, others each time, and `make proofs` all.

use crate::Dice;

/// One row of so many, where nobody asks for more (`ROWS_STRIDE`).
const STRIDE: usize = 6;
/// Every run tries so many, where there are so many.
const FEW: usize = 4;

/// The rows that this run tries, in their order: all with `ROWS_STRIDE=1`. `ROWS_SEED` repeats the choice, which is
/// printed.
pub fn part<T>(rows: &[T]) -> Vec<&T> {
    let asked = std::env::var("ROWS_STRIDE")
        .ok()
        .and_then(|stride| stride.parse().ok());
    let stride = stride(rows.len(), asked);
    if stride == 1 {
        return rows.iter().collect();
    }
    let first = usize::try_from(Dice::seed("ROWS_SEED") % stride as u64).unwrap_or_default();
    let part: Vec<_> = rows.iter().skip(first).step_by(stride).collect();
    println!(
        "{} of {} rows (ROWS_STRIDE=1 tries all)",
        part.len(),
        rows.len()
    );
    part
}

fn stride(rows: usize, asked: Option<usize>) -> usize {
    asked.unwrap_or_else(|| STRIDE.min(rows / FEW)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_run_tries_a_few() {
        assert_eq!(
            [0, 3, 7, 8, 11, 12, 40].map(|rows| stride(rows, None)),
            [1, 1, 1, 2, 2, 3, 6]
        );
    }

    #[test]
    fn who_asks_gets_all() {
        assert_eq!(stride(40, Some(1)), 1);
        assert_eq!(stride(40, Some(0)), 1);
    }
}

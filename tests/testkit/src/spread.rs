//! What many measurements of one thing say: the middle, the ends, how bad the worst few are.

/// The values, sorted; at least one.
#[derive(Debug, Clone)]
pub struct Spread {
    sorted: Vec<f64>,
}

impl Spread {
    /// Of these values.
    ///
    /// # Panics
    ///
    /// When there is none, or one that is not a number: then there is nothing to say.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        assert!(!sorted.is_empty(), "nothing was measured");
        assert!(
            !sorted.iter().any(|value| value.is_nan()),
            "not a number was measured"
        );
        sorted.sort_by(f64::total_cmp);
        Self { sorted }
    }

    /// The smallest of the values that at least `percent` in a hundred are below; where none is, the greatest. Of two
    /// in the middle it is the greater one: rounding never makes a figure better.
    pub fn percentile(&self, percent: u32) -> f64 {
        let below = self.sorted.len() * percent as usize / 100;
        self.sorted[below.min(self.sorted.len() - 1)]
    }

    /// The one in the middle; of two, the greater one.
    pub fn median(&self) -> f64 {
        self.percentile(50)
    }

    /// The least of the values.
    pub fn least(&self) -> f64 {
        self.sorted[0]
    }

    /// The greatest of the values.
    pub fn greatest(&self) -> f64 {
        self.sorted[self.sorted.len() - 1]
    }

    /// How many values there are.
    pub fn count(&self) -> usize {
        self.sorted.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn percentile(count: u32, percent: u32) -> f64 {
        Spread::of((1..=count).rev().map(f64::from)).percentile(percent)
    }

    #[test]
    fn the_middle_is_the_greater_of_two() {
        assert_eq!(percentile(1, 50), 1.0);
        assert_eq!(percentile(2, 50), 2.0);
        assert_eq!(percentile(3, 50), 2.0);
        assert_eq!(percentile(4, 50), 3.0);
        assert_eq!(percentile(15, 50), 8.0);
    }

    #[test]
    fn the_worst_few_are_not_left_out() {
        assert_eq!(
            percentile(200, 99),
            199.0,
            "two in 200 are as slow as this or slower"
        );
        assert_eq!(percentile(201, 99), 199.0, "1.99 in 201 would be too few");
        assert_eq!(percentile(100, 99), 100.0);
        assert_eq!(percentile(20, 99), 20.0, "too few to leave one out");
        assert_eq!(percentile(7, 100), 7.0);
    }

    #[test]
    fn the_ends_are_the_ends_in_any_order() {
        let spread = Spread::of([2.0, 0.5, 9.0, 1.0]);
        assert_eq!(
            (spread.least(), spread.greatest(), spread.count()),
            (0.5, 9.0, 4)
        );
    }

    #[test]
    #[should_panic(expected = "nothing was measured")]
    fn nothing_has_no_middle() {
        Spread::of([]);
    }
}

//! The shell recipe of the protocol's own document, cut out of it at run time so that it runs word for word.

use std::fs;

/// The recipe in its two halves; what goes between them is the work.
pub struct Recipe {
    /// From the shebang to the end of the here-document: writes the lock, with the shell's own PID.
    pub create: String,
    /// Removes it.
    pub release: String,
}

impl Recipe {
    /// The recipe of the document beside the checkout; None, and said so, where that is absent.
    ///
    /// # Panics
    ///
    /// When the document is there and has no such recipe.
    #[track_caller]
    pub fn of_the_seed() -> Option<Self> {
        let document = crate::shared()?.join("seeds/beads-exclusive-lock.md");
        let text = fs::read_to_string(&document).unwrap_or_else(|e| panic!("{}: {e}", document.display()));
        let block = text.split("```bash\n").nth(1).and_then(|rest| rest.split("```").next());
        let block = block.expect("the document has a bash block");
        let end = block.find("\nEOF\n").expect("the recipe has a here-document") + "\nEOF\n".len();
        let release =
            block[end..].lines().find(|line| line.starts_with("rm ")).expect("the recipe removes its lock");
        Some(Self { create: block[..end].to_owned(), release: format!("{release}\n") })
    }

    /// The seed's recipe, else one of ours that does the same: for a control that must run in every checkout.
    pub fn any() -> Self {
        Self::of_the_seed().unwrap_or_else(|| Self {
            create: OURS.to_owned(),
            release: "rm .beads/.exclusive-lock\n".to_owned(),
        })
    }

    /// A script that claims, does the work, and releases.
    pub fn around(&self, work: &str) -> String {
        format!("{}{work}\n{}", self.create, self.release)
    }
}

const OURS: &str = r#"printf '{"holder":"my-tool","pid":%d,"hostname":"%s","started_at":"%s"}\n' \
    $$ "$(uname -n)" "$(date -u +%Y-%m-%dT%H:%M:%SZ)" > .beads/.exclusive-lock
"#;

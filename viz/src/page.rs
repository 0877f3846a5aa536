//! Puts the view-model, the style and the scripts into one HTML file that needs no network and no server.
//!
//! The model is inlined as JSON in which `<`, `>` and `&` are escaped, so that no name in a user's file can end the script element;
//! the scripts write it to the page as text only. A content security policy forbids every request.

use ir::plan::Plan;
use std::fmt::Write as _;

/// The style.
const STYLE: &str = include_str!("../assets/page.css");

/// The scripts, in the order in which they run, in one scope.
const SCRIPTS: &[&str] = &[
    include_str!("../assets/base.js"),
    include_str!("../assets/plan.js"),
    include_str!("../assets/state.js"),
    include_str!("../assets/tree.js"),
    include_str!("../assets/layout.js"),
    include_str!("../assets/graph.js"),
    include_str!("../assets/mesh.js"),
    include_str!("../assets/schedule.js"),
    include_str!("../assets/memory.js"),
    include_str!("../assets/table.js"),
    include_str!("../assets/details.js"),
    include_str!("../assets/search.js"),
    include_str!("../assets/main.js"),
];

/// The page's skeleton; `@…@` are filled in.
const SKELETON: &str = include_str!("../assets/page.html");

/// The same of a comparison of strategies, which takes the plan's style and tables.
const COMPARISON_SKELETON: &str = include_str!("../assets/compare.html");
const COMPARISON_STYLE: &str = concat!(include_str!("../assets/page.css"), include_str!("../assets/compare.css"));
const COMPARISON_SCRIPTS: &[&str] = &[include_str!("../assets/base.js"), include_str!("../assets/table.js"), include_str!("../assets/compare.js")];

/// One self-contained HTML page that shows the plan.
pub fn page(plan: &Plan) -> String {
    let model = serde_json::to_string(&crate::model::model(plan)).expect("invariant: the view-model has text keys and finite numbers");
    filled(SKELETON, STYLE, SCRIPTS, &format!("{} on {}", plan.request.model, plan.cluster.name), &model)
}

/// One self-contained HTML page that shows strategies side by side, from what `compare --json` prints.
pub fn comparison_page(title: &str, comparison: &serde_json::Value) -> String {
    filled(COMPARISON_SKELETON, COMPARISON_STYLE, COMPARISON_SCRIPTS, title, &comparison.to_string())
}

fn filled(skeleton: &str, style: &str, scripts: &[&str], title: &str, model: &str) -> String {
    let scripts = scripts.concat();
    let mut page = String::with_capacity(skeleton.len() + style.len() + scripts.len() + model.len() + model.len() / 16);
    for (i, part) in skeleton.split('@').enumerate() {
        match (i % 2, part) {
            (0, text) => page.push_str(text),
            (_, "title") => page.push_str(&escape_text(title)),
            (_, "style") => page.push_str(style),
            (_, "model") => escape_json(model, &mut page),
            (_, "scripts") => page.push_str(&scripts),
            (_, _) => {}
        }
    }
    page
}

/// Text for an HTML element.
fn escape_text(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// JSON for a script element: the same JSON, with the characters that HTML could read written as escapes (they occur in strings only).
fn escape_json(json: &str, out: &mut String) {
    for c in json.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_in_a_script_cannot_end_it() {
        let mut out = String::new();
        escape_json(r#"{"name":"</script><!--&"}"#, &mut out);
        assert_eq!(out, r#"{"name":"\u003c/script\u003e\u003c!--\u0026"}"#);
        assert_eq!(escape_text("<a & \"b\">"), "&lt;a &amp; &quot;b&quot;&gt;");
    }

    #[test]
    fn the_skeleton_names_each_part_once() {
        for skeleton in [SKELETON, COMPARISON_SKELETON] {
            let parts: Vec<&str> = skeleton.split('@').skip(1).step_by(2).collect();
            assert_eq!(parts, ["title", "style", "model", "scripts"]);
        }
    }
}

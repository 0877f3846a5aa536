//! Tests of the page and of `explain`, on a plan made by hand and in headless Chromium.

mod browser;
mod sample;
mod webdriver;

use std::fmt::Write as _;

#[test]
fn the_sample_is_a_plan() {
    let plan = sample::gpt(4);
    plan.verify().expect("the sample is consistent");
    let again = ir::plan::Plan::from_bytes(&plan.to_bytes()).expect("it reads back");
    assert!(again == plan);
}

/// The view-model with one field of the plan a line.
fn lines(plan: &ir::plan::Plan) -> String {
    let model = serde_json::to_value(viz::model::model(plan)).expect("it serializes");
    let mut text = String::from("{\n");
    let fields = model.as_object().expect("an object");
    for (i, (key, value)) in fields.iter().enumerate() {
        let _ = writeln!(text, "\"{key}\": {value}{}", if i + 1 < fields.len() { "," } else { "" });
    }
    text.push_str("}\n");
    text
}

#[test]
fn the_view_model_is_as_agreed() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/page/model.json");
    let found = lines(&sample::gpt(0));
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, &found).expect("the golden file can be written");
    }
    let expected = std::fs::read_to_string(path).unwrap_or_default();
    for (a, b) in found.lines().zip(expected.lines()) {
        assert_eq!(a, b, "the view-model changed; look at the difference, then run with BLESS=1");
    }
    assert_eq!(found.lines().count(), expected.lines().count());
}

#[test]
fn the_same_plan_gives_the_same_bytes() {
    assert!(viz::page(&sample::gpt(3)) == viz::page(&sample::gpt(3)));
}

#[test]
fn the_page_needs_nothing_outside() {
    let page = viz::page(&sample::gpt(1));
    for forbidden in ["http:", "https:", "src=", "@import", "fetch(", "XMLHttpRequest", "WebSocket", "innerHTML", "insertAdjacentHTML", "eval("] {
        let mut found = page.match_indices(forbidden).filter(|(i, _)| !page[*i..].starts_with("http://www.w3.org/2000/svg"));
        assert_eq!(found.next(), None, "{forbidden}");
    }
}

/// What `compare --json` prints, with names that are no markup.
fn comparison() -> serde_json::Value {
    let parts = serde_json::json!([
        ["products", 0.2],
        ["attention", 0.1],
        ["other computing", 0.1],
        ["update", 0.05],
        ["exposed communication", 0.04],
        ["waiting", 0.01]
    ]);
    let memory = serde_json::json!([["parameters, optimizer state, data", 6], ["gradients", 2], ["activations", 3], ["temporaries", 1]]);
    let row = |name: &str, step: f64| {
        serde_json::json!({
            "strategy": name, "executed": true, "predicted_only": null, "fits": true, "setting": "mesh 4", "step_seconds": step, "tokens_per_second_per_device": 1000.0,
            "mfu": 0.4, "bubble": 0.0, "exposed_communication_seconds": 0.04, "parts_seconds": parts, "memory_bytes": 12, "memory_parts_bytes": memory,
            "price_per_billion_tokens": 12.5,
        })
    };
    serde_json::json!({
        "model": "</script><b>model", "cluster": "local:4", "devices": 4, "nodes": 1, "device": "CPU-core", "capacity_bytes": 16, "price_per_hour": 1.0,
        "batch": 8, "tokens": 1024, "unit": "token", "flops": 1e12,
        "rows": [row("auto", 0.5), row("zero3", 0.6), { "strategy": "data", "executed": true, "predicted_only": null, "fits": false, "needs_bytes": 20, "why": "does not fit" }],
        "scaling": [{ "nodes": 1, "devices": 1, "steps_seconds": { "auto": 1.8 } }, { "nodes": 1, "devices": 4, "steps_seconds": { "auto": 0.5, "zero3": 0.6 } }],
    })
}

#[test]
fn strategies_are_shown_on_a_page_of_their_own() {
    let page = viz::comparison_page("</title><b>", &comparison());
    assert!(!page.contains("</script><b>") && !page.contains("</title><b>"));
    for forbidden in ["http:", "https:", "src=", "@import", "fetch(", "XMLHttpRequest", "innerHTML", "eval("] {
        let mut found = page.match_indices(forbidden).filter(|(i, _)| !page[*i..].starts_with("http://www.w3.org/2000/svg"));
        assert_eq!(found.next(), None, "{forbidden}");
    }
}

#[test]
fn an_unusual_plan_is_shown_without_a_panic() {
    let mut plan = sample::gpt(1);
    plan.stages[0].devices.clear();
    plan.stages[0].shardings.truncate(3);
    plan.stages[1].mesh.axes.clear();
    plan.stages[1].decisions[0].chosen = 99;
    plan.stages[1].decisions[1].ops.push(ir::OpId(1_000_000));
    plan.layers.clear();
    plan.schedule.microbatches = 1;
    plan.schedule.step = ir::Seconds(f64::NAN);
    plan.schedule.bubble = f64::INFINITY;
    plan.request.model = "</title><script>alert(1)</script>".into();
    let page = viz::page(&plan);
    assert!(!page.contains("<script>alert"));
    for v in ["%1", "%60", "%100", "op3"] {
        let _ = viz::explain(&plan, v);
    }
}

#[test]
fn explain_says_what_the_page_says() {
    let plan = sample::gpt(2);
    let text = viz::explain(&plan, "%30").expect("there is such a value");
    for expected in [
        "dot_general",
        "[{\"x\"}, {}, {\"y\"}]",
        "PartitionSpec('x', None, 'y')",
        "dimension 0 over x",
        "▸ batch on \"x\", columns on \"y\"",
        "what decided: cost",
        "--pin '%30=",
    ] {
        assert!(text.contains(expected), "{expected} is missing in\n{text}");
    }
    assert_eq!(viz::explain(&plan, "30").as_deref(), Ok(text.as_str()));
    assert!(viz::explain(&plan, "result[loss]").expect("results have names").contains("reduce(add)"));
    assert!(viz::explain(&plan, "%arg0").expect("arguments have names").contains("+pad"));
    let missing = viz::explain(&plan, "%arg00").expect_err("no such value");
    assert_eq!((missing.code.as_str(), missing.help.as_deref()), ("E0910", Some("did you mean `%arg0`?")));
    let data = serde_json::to_value(viz::explanation(&plan, "%30").expect("there is such a value")).expect("it serializes");
    assert_eq!(data["decisions"][0]["candidates"][0]["chosen"], true);
    assert_eq!(data["values"][0]["shardings"][0]["slices"][3], serde_json::json!([3, [[8, 16], [0, 128], [512, 1024]]]));
}

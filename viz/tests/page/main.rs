//! Tests of the page and of `explain`, on a plan made by hand and in headless Chromium.

mod sample;

#[test]
fn the_sample_is_a_plan() {
    let plan = sample::gpt(4);
    plan.verify().expect("the sample is consistent");
    let again = ir::plan::Plan::from_bytes(&plan.to_bytes()).expect("it reads back");
    assert!(again == plan);
    if let Ok(d) = std::env::var("VIZ_DEV") {
        std::fs::write(format!("{d}/small.html"), viz::page(&plan)).unwrap();
        std::fs::write(format!("{d}/small.json"), serde_json::to_string(&viz::model::model(&plan)).unwrap()).unwrap();
        let big = sample::gpt(170);
        println!("{} ops", big.graph.ops.len());
        std::fs::write(format!("{d}/big.json"), serde_json::to_string(&viz::model::model(&big)).unwrap()).unwrap();
        for n in ["%100", "%arg0", "%30", "%arg00", "op12"] {
            match viz::explain(&plan, n) { Ok(t) => println!("{t}"), Err(e) => println!("{e}") }
        }
    }
}

//! The page in headless Chromium: a click through its views, hostile names, and the time that a large plan takes to open.
#![allow(clippy::print_stderr, clippy::print_stdout, reason = "tests say what they leave out")]

use crate::sample;
use crate::webdriver::Browser;
use serde_json::json;
use std::path::{Path, PathBuf};

/// Where pictures and pages are kept: `target/artefacts`.
fn artefacts() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("a target folder").join("artefacts");
    std::fs::create_dir_all(&folder).expect("artefacts can be kept");
    folder
}

fn write_page(name: &str, plan: &ir::plan::Plan) -> String {
    let path = artefacts().join(name);
    std::fs::write(&path, viz::page(plan)).expect("the page can be written");
    format!("file://{}", path.display())
}

#[allow(clippy::print_stderr, reason = "a test says what it leaves out")]
fn browser() -> Option<Browser> {
    let browser = Browser::start(1600, 1000);
    if browser.is_none() {
        eprintln!("left out: this machine has no chromium or chromedriver");
    }
    browser
}

#[test]
fn one_selection_in_all_views() {
    let Some(b) = browser() else { return };
    let url = write_page("page.html", &sample::gpt(4));
    b.open(&url);
    assert!(b.text("#details").contains("The plan"));
    assert_eq!(b.count(".node.stage"), 2);
    assert!(b.text("#graph").contains("×2 identical"));

    // Open a phase, select an op in it: graph, mesh, schedule, memory and details show it.
    b.click("[data-id='s0.l1.p1'] .toggle-hit");
    assert!(b.count(".node.op") > 5);
    b.keys("body", "f");
    let op = b.eval("[...document.querySelectorAll('.node.op')].find(n => n.textContent.includes('mlp/fc1')).dataset.id");
    let op = op.as_str().expect("the product is drawn").to_string();
    b.click(&format!("[data-id='{op}']"));
    assert_eq!(b.count(".node.selected"), 1);
    assert!(b.count(".node.near") > 1);
    assert!(b.text("#details h3").contains("dot_general"));
    assert!(b.text("#details").contains("PartitionSpec('x', None, 'y')"));
    assert_eq!(b.count("table[data-table='candidates'] tr.chosen"), 1);
    assert_eq!(b.count("#tiles .tile"), 4);
    assert_eq!(b.count(".run.part"), 8, "the forward of stage 0, once a microbatch");
    assert!(b.text("#memory-about").contains("stage 0"));
    assert!(b.eval("location.hash").as_str().is_some_and(|h| h.contains("sel=op")));

    // Hovering a device tells its slice and marks its tile.
    b.hover("[data-stage='0'][data-device='3']");
    assert!(b.text("#mesh-caption").contains("device 3 (x=1, y=1): [8:16, 0:128, 512:1024]"), "{}", b.text("#mesh-caption"));
    assert_eq!(b.count(".tile.lit"), 1);

    // A pin from the candidates.
    b.click("[data-pin]");
    assert!(b.text("#pin").contains("--pin '%30="), "{}", b.text("#pin"));
    std::fs::write(artefacts().join("page.png"), b.screenshot()).expect("the picture can be kept");

    // The link reopens the same view.
    let address = b.eval("location.href").as_str().unwrap_or("").to_string();
    b.open("about:blank");
    b.open(&address);
    assert_eq!(b.count(".node.selected"), 1);
    assert!(b.text("#details h3").contains("dot_general"));

    // A box of the schedule selects its phase, and the memory chart its moment.
    b.click("[data-run='run:1.2.3']");
    assert!(b.text("#details h3").contains("Stage 1, backward of microbatch 3"));
    assert_eq!(b.count(".run.selected"), 1);
    assert!(b.text("#memory-about").contains("stage 1"));
    assert!(b.count("table[data-table='instructions'] tbody tr") > 10);

    // GPipe from the same stage times: the first backward waits for all forwards.
    let first_backward = "Number(document.querySelector(\"[data-run='run:0.2.0']\").getAttribute('x'))";
    let before = b.eval(first_backward).as_f64();
    assert!(b.text("#schedule").contains("As planned"));
    b.click("[data-kind='gpipe']");
    assert!(b.eval(first_backward).as_f64() > before);
    assert!(b.text("#schedule").contains("Not what was planned"));

    // Search by words, terms and an expression; Enter selects.
    b.keys("#search", "kind:dot stage:1 phase:forward /attn\\/qkv/");
    assert!(wait(|| b.count("#results .hit") == 2), "{}", b.text("#results"));
    b.keys("#search", "\u{e007}");
    assert!(b.text("#details h3").contains("dot_general"));
    b.keys("#search", "\u{e00c}");
    b.keys("#search", "kind:all-reduce");
    assert!(wait(|| b.count("#results .hit") > 5));
    b.keys("#search", "\u{e00c}");

    // Tabs, keys, themes.
    b.click("[data-tab='communication']");
    assert!(b.text("#details").contains("all-reduce"));
    b.click("table[data-table='communication'] tbody tr");
    assert!(b.count("table[data-table='communication'] tr.marked") == 1);
    b.click("[data-tab='alternatives']");
    assert_eq!(b.count("table[data-table='alternatives'] tr.chosen"), 1);
    b.keys("body", "?");
    assert_eq!(b.eval("document.getElementById('help').open"), true);
    b.keys("body", "\u{e00c}");
    b.keys("body", "t");
    assert_eq!(b.eval("document.documentElement.dataset.theme"), "dark");
    b.keys("body", "\u{e00c}");
    assert_eq!(b.count(".node.selected"), 0);

    // The padded embedding.
    b.open(&format!("{url}#sel=value:0&theme=dark"));
    b.eval("location.reload()");
    assert!(wait(|| b.count("#tiles .pad") == 1));
    std::fs::write(artefacts().join("page-dark.png"), b.screenshot()).expect("the picture can be kept");
    assert_eq!(b.errors(), Vec::<String>::new());
}

#[test]
fn hostile_names_stay_text() {
    let Some(b) = browser() else { return };
    let mut plan = sample::gpt(1);
    let bad = "<img src=x onerror=\"document.title='owned'\">'\"</script><script>document.title='owned'</script>";
    plan.request.model = bad.into();
    plan.cluster.name = bad.into();
    plan.layers[1].name = bad.into();
    plan.stages[0].decisions[3].reason = bad.into();
    plan.stages[0].mesh.axes[0].name = bad.into();
    plan.notes.push(ir::Diagnostic::note("N0201", bad));
    plan.graph.values[ir::ValueId(15)].name = bad.into();
    b.open(&write_page("hostile.html", &plan));
    for sel in ["value:15", "group:3", "node:s0.l1.p1", "op:3"] {
        b.eval(&format!("(location.hash = 'sel=' + encodeURIComponent('{sel}')) && 0"));
        std::thread::yield_now();
        assert!(wait(|| b.count("#details h3") > 0));
    }
    b.click("[data-tab='notes']");
    assert!(b.text("#details").contains("<img src=x"));
    assert_eq!(b.count("img"), 0);
    assert_ne!(b.eval("document.title"), "owned");
    assert_eq!(b.errors(), Vec::<String>::new());
}

#[test]
fn twenty_thousand_ops_open_at_once() {
    let Some(b) = browser() else { return };
    let plan = sample::gpt(230);
    assert!(plan.graph.ops.len() > 20_000, "{}", plan.graph.ops.len());
    let url = write_page("large.html", &plan);
    let best = (0..2)
        .map(|_| {
            b.open("about:blank");
            b.cdp("Performance.enable", json!({ "timeDomain": "threadTicks" }));
            let before = b.busy();
            b.open(&url);
            assert!(wait(|| b.eval("Boolean(document.documentElement.dataset.ready)") == true));
            b.busy() - before
        })
        .fold(f64::INFINITY, f64::min);
    println!("{} ops: {best:.2} s of processor time until it is drawn", plan.graph.ops.len());
    assert!(best < 2.0, "{best} s");

    let started = std::time::Instant::now();
    b.click("[data-id='s0.l1.p2'] .toggle-hit");
    assert!(b.count(".node.op") > 5);
    b.keys("#search", "softmax stage:1");
    assert!(wait(|| b.count("#results .hit") > 50));
    println!("opened a part and searched in {:?}", started.elapsed());
    assert_eq!(b.errors(), Vec::<String>::new());
}

/// Whether something holds soon; machines that do much else get a long time.
fn wait(holds: impl Fn() -> bool) -> bool {
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !holds() {
        if std::time::Instant::now() > until {
            return false;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    true
}

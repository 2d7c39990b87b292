//! What an experiment file means.

use tidegate_scenario::model::{Application, Queue};
use tidegate_scenario::{Document, Experiment, explain, list_mechanisms};
use tidegate_units::{BitRate, Span};

const SWEEP: &str = include_str!("../data/sweep.toml");

fn experiment(text: &str) -> Experiment {
    let document = Document::from_text("sweep.toml", text).unwrap();
    document.experiment().unwrap_or_else(|errors| panic!("{}", errors.render()))
}

fn message(text: &str) -> String {
    let document = Document::from_text("sweep.toml", text).unwrap();
    document.check().expect_err("should not be valid").to_string()
}

#[test]
fn points_run_through_variants_then_axes_then_seeds() {
    let experiment = experiment(SWEEP);
    let points = experiment.points(false);
    assert_eq!(points.len(), 2 * 3 * 2 * 2);
    let shown: Vec<String> = points
        .iter()
        .take(5)
        .map(|point| {
            let axes: Vec<String> =
                point.axes.iter().map(|(name, value)| format!("{name}={value}")).collect();
            format!("{} {} {}", point.variant.as_deref().unwrap_or("-"), axes.join(" "), point.seed)
        })
        .collect();
    assert_eq!(
        shown,
        [
            "fifo load=64kbit hops=1 1",
            "fifo load=64kbit hops=1 2",
            "fifo load=64kbit hops=2 1",
            "fifo load=64kbit hops=2 2",
            "fifo load=1Mbit hops=1 1",
        ]
    );
    let quick = experiment.points(true);
    assert_eq!(quick.len(), 2 * 2);
    assert_eq!(quick[0].axes, [("load".to_owned(), "1Mbit".to_owned()), ("hops".to_owned(), "1".to_owned())]);
    assert_eq!(quick[0].overrides[0], ("duration".to_owned(), "20s".to_owned()));
}

#[test]
fn a_figure_says_which_values_of_axes_it_draws() {
    let text =
        SWEEP.replacen("variants = [\"fifo\"]", "where = { hops = 2, load = [\"64kbit\", \"1Mbit\"] }", 1);
    let json = experiment(&text).to_json();
    let figures = json["figures"].as_array().unwrap();
    let only = figures.iter().find_map(|figure| figure.get("where")).unwrap();
    assert_eq!(only.to_string(), r#"{"hops":["2"],"load":["64kbit","1Mbit"]}"#);
}

#[test]
fn a_point_gives_its_scenario() {
    let experiment = experiment(SWEEP);
    experiment.check().unwrap_or_else(|errors| panic!("{}", errors.render()));
    let points = experiment.points(false);
    let scenario = experiment.scenario(points.last().unwrap()).unwrap();
    assert_eq!(scenario.seed, 2);
    assert_eq!(scenario.flows.len(), 3);
    assert!(matches!(&scenario.links[0].forward.queue, Queue::Wfq(_)));
    assert!(
        matches!(&scenario.flows[1].application, Application::Cbr(cbr) if cbr.rate == BitRate::from_mbps(2))
    );
    let quick = experiment.scenario(&experiment.points(true)[0]).unwrap();
    assert_eq!(quick.duration, Span::from_secs(20));
}

/// The sweep under `assignments` of the command line.
fn with(text: &str, assignments: &[&str]) -> Document {
    let mut document = Document::from_text("sweep.toml", text).unwrap();
    for assignment in assignments {
        document.set(assignment).unwrap();
    }
    document
}

#[test]
fn the_command_line_wins_over_what_variants_and_the_quick_form_set() {
    let text = SWEEP.replace("\"wfq\" }", "\"wfq\", warmup = \"5s\" }");
    let document = with(&text, &["warmup=7s", "duration=30s", "seeds=1", "axes.load.values=['1Mbit']"]);
    let experiment = document.experiment().unwrap();
    let points = experiment.points(false);
    assert_eq!(points.len(), 2 * 2);
    assert_eq!(experiment.scenario(&points[3]).unwrap().warmup, Span::from_secs(7));
    let quick = experiment.scenario(&experiment.points(true)[0]).unwrap();
    assert_eq!(quick.duration, Span::from_secs(30));
}

#[test]
fn what_makes_runs_the_same_is_told() {
    let told = |text: &str, assignment: &str| {
        let found = with(text, &[assignment]).experiment().expect("it is no error").warnings();
        found.into_iter().map(|one| one.to_string()).collect::<Vec<_>>().join("; ")
    };
    for (assignment, expected) in [
        ("parameters.load=3Mbit", "parameters.load: axis `load` varies this, and all its runs are the same"),
        (
            "parameters.load=3Mbit",
            "`--set axes.load.values=[...]` changes what it takes, with `axes.load.quick`",
        ),
        ("parameters.hops=1", "`--set axes.hops.values=[...]` changes what it takes)"),
        ("defaults.link.queue=red", "variants differ in nothing else"),
        (
            "defaults.link={ rate = '1Mbit', delay = '1ms' }",
            "`tidegate run FILE --variant fifo` with this `--set`",
        ),
    ] {
        let text = told(SWEEP, assignment);
        assert!(text.contains(expected), "{assignment}: {text}");
    }
    // One alone is not the same as another, nor are two that set something else besides.
    assert_eq!(told(&SWEEP.replace("values = [1, 2]", "values = [2]"), "parameters.hops=1"), "");
    let two = SWEEP.replace("\"wfq\" }", "\"wfq\", warmup = \"5s\" }");
    assert_eq!(told(&two, "defaults.link.queue=red"), "");
    assert_eq!(told(SWEEP, "warmup=3s"), "");
}

#[test]
fn what_says_which_runs_there_are_is_no_value_of_a_run() {
    for assignment in
        ["seeds=3", "axes.load.values=['1Mbit']", "variants.fifo.set={}", "quick_set.duration=30s"]
    {
        assert!(with(SWEEP, &[assignment]).check().is_ok(), "{assignment}");
        let text = with(SWEEP, &[assignment]).require_one_run().expect_err(assignment).to_string();
        assert!(text.contains("is of an experiment, and this is one run"), "{text}");
    }
    let mut document = Document::from_text("sweep.toml", SWEEP).unwrap();
    for assignment in ["include=['other.toml']", "include.x=1"] {
        let text = document.set(assignment).expect_err("it is too late").to_string();
        assert!(text.contains("files are included before values are set"), "{text}");
    }
}

#[test]
fn the_quick_form_is_checked_as_well() {
    let text = SWEEP.replace("quick_set = { duration = \"20s\" }", "quick_set = { duration = \"5s\" }");
    assert!(message(&text).contains("duration"), "the warm-up is longer");
}

#[test]
fn bare_dotted_keys_set_values_and_replace_no_section() {
    let text = SWEEP.replace(r#""defaults.link.queue" = "wfq""#, "links.middle.rate = \"7Mbit\"");
    let experiment = experiment(&text);
    let scenario = experiment.scenario(experiment.points(false).last().unwrap()).unwrap();
    let middle = scenario.links.iter().find(|link| link.name == "middle").unwrap();
    assert_eq!(middle.forward.rate, BitRate::from_mbps(7));
}

#[test]
fn errors_of_one_variant_say_which() {
    let text = message(&SWEEP.replace("\"wfq\"", "\"wqf\""));
    assert!(text.contains("variant wfq, load = 64kbit, hops = 1"), "{text}");
    assert!(text.contains("did you mean `wfq`?"), "{text}");
    assert!(message(&SWEEP.replace("\"2Mbit\"", "\"2Mbps\"")).contains("load = 2Mbps"));
}

#[test]
fn mistakes_in_an_experiment_are_named() {
    for (from, to, expected) in [
        ("path = \"parameters.load\"", "path = \"parameters.laod\"", "did you mean `load`?"),
        ("path = \"parameters.load\"", "path = \"a..b\"", "is no path of a key"),
        ("path = \"parameters.load\"", "path = \"seed\"", "`seed` is no value to vary"),
        ("path = \"parameters.load\"", "path = \"seeds\"", "`seeds` is no value to vary"),
        ("path = \"parameters.load\"", "path = \"axes.hops.values\"", "`axes` is no value to vary"),
        (
            "path = \"parameters.load\"",
            "path = \"include\"",
            "an axis chooses among files by `include = [...]`",
        ),
        ("path = \"parameters.load\"", "", "one of `path`, `paths` and `include`"),
        ("quick = [\"1Mbit\"]", "quick = [\"5Mbit\"]", "none of the values"),
        ("x = \"load\"", "x = \"laod\"", "did you mean `load`?"),
        ("variants = [\"fifo\"]", "variants = [\"fifi\"]", "did you mean `fifo`?"),
        ("variants = [\"fifo\"]", "where = { lod = 1 }", "did you mean `load`?"),
        ("variants = [\"fifo\"]", "where = { hops = 3 }", "the axis `hops` has no value `3`"),
        ("variants = [\"fifo\"]", "where = { hops = [] }", "no value of the axis `hops`"),
        ("variants = [\"fifo\"]", "where = { hops = {} }", "a value of the axis, or a list of them"),
        ("labels = [\"TCP\"]", "labels = [\"TCP\", \"UDP\"]", "as many labels"),
        (
            "kind = \"lines\"",
            "kind = \"pie\"",
            "allowed: lines, bars, series, cdf, box, violin, sizes, heatmap, table",
        ),
        ("id = \"fig1\"", "id = \"fig1\"\ncolour = 3", "unknown key `colour`"),
        ("id = \"fig1\"", "id = \"fig1\"\ny_range = [2, 1]", "the lower end first"),
        ("id = \"fig1\"", "id = \"fig1\"\nx_range = [0]", "the lower end first"),
        ("id = \"fig1\"", "id = \"fig1\"\ny_range = [0, 1, 2]", "the lower end first"),
        ("id = \"fig1\"", "id = \"fig1\"\ny_range = [-1e308, 1e308]", "at most 1e100 from zero"),
        ("id = \"fig1\"", "id = \"fig1\"\nscale = 'log'\ny_range = [0, 1]", "a logarithmic axis has no 0"),
        (
            "id = \"fig1\"",
            "id = \"fig1\"\nscale = 'log-x'\nx_range = [-1, 1]",
            "a logarithmic axis has no -1",
        ),
        ("seeds = 2", "seeds = 0", "no number of seeds"),
        ("seeds = 2", "seeds = 2\nalso = \"3.2a\"", "no list of names"),
        ("seeds = 2", "seeds = 2\nalso = [3.2]", "no list of names"),
        ("seeds = 2", "seeds = 100000", "at most 1000000"),
        ("seeds = 2", "seeds = 99999999999999999999", "no number of seeds"),
        ("values = [1, 2]", "values = [1, nan]", "axes.hops.values.1: this is a number that cannot be held"),
        (
            "id = \"fig1\"",
            "id = \"fig1\"\ny_range = [0, inf]",
            "figures.0.y_range.1: expected a number, found inf",
        ),
        ("label = \"UDP\"", "label = 3", "expected a string"),
        ("[variants.fifo]", "[variants.fifo]\nsets = {}", "did you mean `set`?"),
        ("[axes.load]", "[axes.\"lo{ad\"]", "there is no axis `load`"),
    ] {
        let text = SWEEP.replace(from, to);
        assert_ne!(text, SWEEP, "{from} is not in the file");
        let found = message(&text);
        assert!(found.contains(expected), "{to}: {found}");
    }
}

#[test]
fn an_experiment_is_described_as_json() {
    let json = experiment(SWEEP).to_json();
    assert_eq!(json["axes"]["load"]["values"][2], "2Mbit");
    assert_eq!(json["axes"]["load"]["unit"], "Mbit/s");
    assert_eq!(json["variants"]["wfq"]["label"], "WFQ");
    assert_eq!(json["figures"][0]["kind"], "lines");
    assert_eq!(json["parameters"]["load"]["value"], "64kbit");
    assert_eq!(json["parameters"]["load"]["provenance"], "text");
}

#[test]
fn every_mechanism_is_documented() {
    let all = list_mechanisms();
    assert!(all.len() > 15);
    for doc in &all {
        let name = format!("{}/{}", doc.family, doc.kind);
        assert!(!doc.title.is_empty() && !doc.text.is_empty() && !doc.source.is_empty(), "{doc:?}");
        assert!(doc.text.ends_with('.'), "{name}: {}", doc.text);
        assert_eq!(explain(&name).as_ref(), Some(doc));
        for parameter in &doc.parameters {
            assert!(!parameter.description.is_empty(), "{name}: {parameter:?}");
            assert!(parameter.kind != "value" && !parameter.default.is_empty(), "{name}: {parameter:?}");
        }
    }
    let red = explain("red").unwrap();
    assert_eq!(red.title, "Random Early Detection");
    let weight = red.parameters.iter().find(|parameter| parameter.name == "weight").unwrap();
    assert_eq!((weight.default.as_str(), weight.kind.as_str()), ("0.002", "number"));
    assert!(explain("nonsense").is_none());
}

#[test]
fn an_axis_chooses_among_files() {
    let folder = std::env::temp_dir().join(format!("tidegate-axis-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("nets")).unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    write("nets/frame.toml", include_str!("../data/frame.toml"));
    write("nets/short.toml", "include = 'frame.toml'\nduration = '7s'\n[parameters]\nwho = 1");
    write("nets/long.toml", "include = 'frame.toml'\nduration = '9s'\nwarmup = '2s'");
    let axis = "[axes.network]\nvalues = ['A', 'B']\ninclude = ['nets/short.toml', 'nets/long.toml']";
    write("all.toml", &format!("title = 'all'\n{axis}\n[variants.x]\nset = {{ warmup = '1s' }}"));
    let document = Document::open(&folder.join("all.toml")).unwrap();
    let experiment = document.experiment().unwrap();
    experiment.check().unwrap_or_else(|errors| panic!("{}", errors.render()));
    let spans: Vec<(Span, Span)> = experiment
        .points(false)
        .iter()
        .map(|point| experiment.scenario(point).unwrap())
        .map(|scenario| (scenario.duration, scenario.warmup))
        .collect();
    let second = Span::from_secs(1);
    assert_eq!(
        spans,
        [(Span::from_secs(7), second), (Span::from_secs(9), second)],
        "a variant wins over a file"
    );
    // What is run where no axis is asked for.
    assert_eq!(document.scenario().unwrap().duration, Span::from_secs(7));
    let again = Document::from_text("elsewhere.toml", &document.to_toml()).unwrap();
    assert_eq!(again.scenario().unwrap().duration, Span::from_secs(7));

    let message = |text: &str| {
        write("all.toml", text);
        let checked = Document::open(&folder.join("all.toml")).and_then(|opened| opened.check());
        checked.expect_err("should not be valid").to_string()
    };
    let one = message(&axis.replace(", 'nets/long.toml'", ""));
    assert!(one.contains("1 files for 2 values"), "{one}");
    let both = message(&format!("{axis}\npath = 'duration'"));
    assert!(both.contains("needs one of `path`, `paths` and `include`"), "{both}");
    let missing = message(&axis.replace("short", "nowhere"));
    assert!(missing.contains("`nets/nowhere.toml` cannot be read"), "{missing}");
    std::fs::remove_dir_all(&folder).unwrap();
}

/// A run has the seed of its point: an axis of seeds would be three times the same under three labels.
#[test]
fn the_seed_is_no_value_to_vary() {
    let axis = message(&SWEEP.replace("path = \"parameters.load\"", "path = \"seed\""));
    assert!(axis.contains("no value to vary") && axis.contains("`seeds`"), "{axis}");
}

#[test]
fn what_is_said_of_an_experiment_has_values_in_place_of_names() {
    let text = "title = 'From {n} to {2 * n}, {load} and {kind}, in {{braces}}'\ndescription = 'of {nothing}'\n\
                duration = '1s'\nnodes = { hosts = ['a', 'b'] }\n\
                [parameters]\nn = 3\nload = '1Mbit'\nkind = 'tcp'\n\
                [axes.load]\npath = 'parameters.load'\nvalues = ['1Mbit', '2Mbit']\n\
                [variants]\none = {}\nother.set = { 'parameters.kind' = 'udp' }\n";
    let mut document = Document::from_text("test.toml", text).unwrap();
    document.set("parameters.n=4").unwrap();
    let experiment = document.experiment().unwrap();
    assert_eq!(experiment.title, "From 4 to 8, load and kind, in {braces}");
    assert_eq!(experiment.description, "of {nothing}");
}

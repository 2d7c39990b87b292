//! Tables of traffic that a scenario names: sizes of transfers, and lists of them. Two columns with a comma between.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tidegate_document::source::Sources;
use tidegate_units::Span;

use crate::fault::shortened;
use crate::model::{Application, Arrivals, Scenario, SizeTable, Sizes, Transfers};
use crate::trace::text_of;

/// Lines of all tables of a scenario.
const LINES_MAX: usize = 4_000_000;
/// No transfer is larger.
const BYTES_MAX: f64 = 1e12;
/// No instant is later, in seconds.
const SECONDS_MAX: f64 = 1e6;

/// Points of a distribution function.
type Points = Arc<[(f64, f64)]>;
/// Transfers with their instants.
type List = Arc<[(Span, u64)]>;

impl Scenario {
    /// The files that it names, each once, with texts that say the same.
    pub fn files(&self) -> Vec<(String, String)> {
        let mut files = BTreeMap::new();
        for direction in self.links.iter().flat_map(|link| [&link.forward, &link.reverse]) {
            if let Some(trace) = &direction.trace {
                files.entry(trace.file.clone()).or_insert_with(|| trace.to_text());
            }
        }
        for (name, numbers) in self.tables() {
            files.entry(name.to_owned()).or_insert_with(|| {
                let lines: Vec<String> =
                    numbers.chunks(2).map(|line| format!("{},{}", line[0], line[1])).collect();
                lines.join("\n")
            });
        }
        files.into_iter().collect()
    }

    /// The tables of its traffic by the names of their files, with their numbers in the order of the file.
    pub(crate) fn tables(&self) -> BTreeMap<&str, Vec<f64>> {
        let mut tables = BTreeMap::new();
        for flow in &self.flows {
            for sizes in sizes_of(&flow.application) {
                let Sizes::Table(table) = sizes else { continue };
                let numbers = || table.points.iter().flat_map(|&(bytes, part)| [bytes, part]).collect();
                tables.entry(table.file.as_str()).or_insert_with(numbers);
            }
            if let Application::Transfers(Transfers { arrivals: Arrivals::List(list), .. }) =
                &flow.application
            {
                let numbers =
                    || list.list.iter().flat_map(|&(at, bytes)| [at.as_secs_f64(), bytes as f64]).collect();
                tables.entry(list.file.as_str()).or_insert_with(numbers);
            }
        }
        tables
    }
}

/// The tables of one scenario: each file is read once.
pub(crate) struct Tables<'a> {
    sources: &'a Sources,
    rows: HashMap<String, Result<Arc<Rows>, String>>,
    lines: usize,
}

/// Numbers of lines, and the two numbers of each.
type Rows = Vec<(usize, f64, f64)>;

impl<'a> Tables<'a> {
    pub(crate) fn new(sources: &'a Sources) -> Self {
        Self { sources, rows: HashMap::new(), lines: 0 }
    }

    /// Reads what `application` names; else under which keys what is wrong.
    pub(crate) fn fill(&mut self, application: &mut Application) -> Result<(), (Vec<String>, String)> {
        for (keys, table) in tables_of(application) {
            let points = self.rows(&table.file).and_then(|rows| points(&table.file, &rows));
            table.points = points.map_err(|why| (keys, why))?;
        }
        if let Application::Transfers(Transfers { arrivals: Arrivals::List(list), .. }) = application {
            let read = self.rows(&list.file).and_then(|rows| instants(&list.file, &rows));
            let keys = || ["application", "arrivals", "file"].map(str::to_owned).to_vec();
            list.list = read.map_err(|why| (keys(), why))?;
        }
        Ok(())
    }

    fn rows(&mut self, file: &str) -> Result<Arc<Rows>, String> {
        if let Some(known) = self.rows.get(file) {
            return known.clone();
        }
        let rows =
            text_of(self.sources, file, "a table").and_then(|text| rows(file, &text)).and_then(|rows| {
                self.lines += rows.len();
                if self.lines > LINES_MAX {
                    return Err(format!("with {file} all tables have more than {LINES_MAX} lines"));
                }
                Ok(Arc::new(rows))
            });
        self.rows.insert(file.to_owned(), rows.clone());
        rows
    }
}

/// The distributions of `application`.
fn sizes_of(application: &Application) -> Vec<&Sizes> {
    match application {
        Application::Transfers(transfers) => transfers.sizes.iter().collect(),
        Application::Pages(pages) => pages.objects.iter().filter_map(|group| group.sizes.as_ref()).collect(),
        _ => Vec::new(),
    }
}

/// Those of them that are tables, and the keys under which each names its file.
fn tables_of(application: &mut Application) -> Vec<(Vec<String>, &mut SizeTable)> {
    let mut found = Vec::new();
    match application {
        Application::Transfers(transfers) => {
            if let Some(Sizes::Table(table)) = &mut transfers.sizes {
                found.push((["application", "sizes", "file"].map(str::to_owned).to_vec(), table));
            }
        }
        Application::Pages(pages) => {
            for (position, group) in pages.objects.iter_mut().enumerate() {
                if let Some(Sizes::Table(table)) = &mut group.sizes {
                    let place = position.to_string();
                    let keys = ["application", "objects", &place, "sizes", "file"];
                    found.push((keys.map(str::to_owned).to_vec(), table));
                }
            }
        }
        _ => {}
    }
    found
}

/// The lines of two numbers.
fn rows(file: &str, text: &str) -> Result<Rows, String> {
    let mut rows = Rows::new();
    let mut may_be_names = true;
    for (line, number) in text.lines().zip(1..) {
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let is_first = core::mem::take(&mut may_be_names);
        let numbers = line.split_once(',').and_then(|(one, other)| {
            Some((one.trim_ascii().parse::<f64>().ok()?, other.trim_ascii().parse::<f64>().ok()?))
        });
        match numbers.filter(|(one, other)| one.is_finite() && other.is_finite()) {
            Some((one, other)) => rows.push((number, one, other)),
            None if is_first && line.contains(',') => {}
            None => {
                let found = shortened(line);
                return Err(format!(
                    "{file}, line {number}: expected two numbers with a comma between, found `{found}`"
                ));
            }
        }
        if rows.len() > LINES_MAX {
            return Err(format!("{file}: more than {LINES_MAX} lines"));
        }
    }
    if rows.is_empty() {
        return Err(format!("{file} has no line of two numbers"));
    }
    Ok(rows)
}

/// A distribution function from the text of `file`.
///
/// # Errors
/// What is wrong, with the number of the line.
pub(crate) fn read_points(file: &str, text: &str) -> Result<Points, String> {
    rows(file, text).and_then(|rows| points(file, &rows))
}

/// A distribution function.
fn points(file: &str, rows: &Rows) -> Result<Points, String> {
    let mut points: Vec<(f64, f64)> = Vec::with_capacity(rows.len());
    for &(line, bytes, part) in rows {
        let wrong = |what: String| Err(format!("{file}, line {line}: {what}"));
        if !(0.0..=1.0).contains(&part) {
            return wrong(format!("{part} is no part of the transfers; 0 to 1"));
        }
        if !(0.0..=BYTES_MAX).contains(&bytes) {
            return wrong(format!("{bytes} is no size; 0 to {BYTES_MAX:.0} bytes"));
        }
        if let Some(&(before, reached)) = points.last()
            && (bytes < before || part < reached)
        {
            return wrong(format!("{bytes} bytes and {part} come after {before} and {reached}; both ascend"));
        }
        points.push((bytes, part));
    }
    let (_, reached) = points[points.len() - 1];
    if reached != 1.0 {
        return Err(format!("{file} ends at {reached}: at its last size the part is 1"));
    }
    Ok(points.into())
}

/// Transfers with their instants.
fn instants(file: &str, rows: &Rows) -> Result<List, String> {
    let mut list: Vec<(Span, u64)> = Vec::with_capacity(rows.len());
    for &(line, seconds, bytes) in rows {
        let wrong = |what: String| Err(format!("{file}, line {line}: {what}"));
        if !(0.0..=SECONDS_MAX).contains(&seconds) {
            return wrong(format!("{seconds} s is no instant; 0 to {SECONDS_MAX:.0}"));
        }
        if !(1.0..=BYTES_MAX).contains(&bytes) || bytes.fract() != 0.0 {
            return wrong(format!("{bytes} is no size; 1 to {BYTES_MAX:.0} whole bytes"));
        }
        let after = Span::from_secs_f64(seconds);
        if list.last().is_some_and(|&(before, _)| after < before) {
            return wrong(format!("{seconds} s comes after a later instant; seconds do not descend"));
        }
        list.push((after, bytes as u64));
    }
    Ok(list.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Measured, MeasuredSizes};

    fn read(text: &str) -> Result<Points, String> {
        read_points("t.csv", text)
    }

    #[test]
    fn comments_names_and_empty_lines_are_passed_over() {
        let got = read("# measured\nbytes,cdf\n\n1000,0.5\r\n 3000 , 1\n").unwrap();
        assert_eq!(&*got, &[(1000.0, 0.5), (3000.0, 1.0)]);
        let list = rows("l", "0.5,10\n0.5,20\n").and_then(|rows| instants("l", &rows)).unwrap();
        assert_eq!(&*list, &[(Span::from_millis(500), 10), (Span::from_millis(500), 20)]);
    }

    #[test]
    fn tables_that_ship_can_be_read() {
        for (of, mean) in [
            (Measured::Internet, 21_025.0),
            (Measured::WebSearch, 1_711_250.0),
            (Measured::DataMining, 7_673_999.0),
            (Measured::Hadoop, 120_421.0),
        ] {
            let points = MeasuredSizes::with(of).points();
            let parts = points.windows(2).map(|pair| (pair[1].1 - pair[0].1) * (pair[0].0 + pair[1].0) / 2.0);
            let all = points[0].0 * points[0].1 + parts.sum::<f64>();
            assert!((all / mean - 1.0).abs() < 1e-4, "{of:?}: {all}");
        }
    }

    #[test]
    fn what_is_no_table_is_refused_with_its_line() {
        for (text, expected) in [
            ("", "t.csv has no line"),
            ("bytes,cdf\n", "t.csv has no line"),
            ("a,b\nc,d\n", "line 2: expected two numbers"),
            ("1000 0.5\n", "line 1: expected two numbers"),
            ("1,0.5\n2\n", "line 2: expected two numbers"),
            ("1,nan\n", "t.csv has no line"),
            ("1,0\n2,1.5\n", "line 2: 1.5 is no part"),
            ("-1,0\n2,1\n", "line 1: -1 is no size"),
            ("5,0.5\n4,1\n", "line 2: 4 bytes and 1 come after 5 and 0.5"),
            ("5,0.5\n6,0.4\n", "line 2: 6 bytes and 0.4 come after 5 and 0.5"),
            ("5,0.5\n6,0.9\n", "t.csv ends at 0.9"),
        ] {
            let why = read(text).unwrap_err();
            assert!(why.contains(expected), "{text:?}: {why}");
        }
        for (text, expected) in [
            ("1,5\n0.5,5\n", "line 2: 0.5 s comes after a later instant"),
            ("1,0\n", "line 1: 0 is no size"),
            ("1,1.5\n", "line 1: 1.5 is no size"),
            ("-1,5\n", "line 1: -1 s is no instant"),
        ] {
            let why = rows("l", text).and_then(|rows| instants("l", &rows)).unwrap_err();
            assert!(why.contains(expected), "{text:?}: {why}");
        }
    }
}

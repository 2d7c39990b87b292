//! Time series as one long table: Arrow record batches, and Apache Parquet.
//!
//! One row per sample: `time_s` (seconds since the start of the run, float64), `name` (dictionary of strings), `value`
//! (float64; its unit is the end of its name). Long rather than wide, for series are sampled at different times.

use std::io;
use std::path::Path;
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, DictionaryArray, Float64Array, Int32Array, RecordBatch, StringArray};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

use crate::file::write_file;

/// A measured quantity over time.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Series {
    /// What it is, as in the summary: `links.bottleneck.forward.queue_packets`. Ends in its unit.
    pub name: String,
    /// When each value was measured, in seconds since the start of the run.
    pub times_s: Vec<f64>,
    /// The values, as many as times.
    pub values: Vec<f64>,
}

/// The table of `series` in Arrow's form: its schema, and one batch per series that has samples, in the order given.
/// All batches share one dictionary of names, so that readers may put them together.
///
/// # Errors
/// A series with more times than values, or fewer.
pub fn to_record_batches(series: &[Series]) -> Result<(SchemaRef, Vec<RecordBatch>), ArrowError> {
    let name = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let schema = Arc::new(Schema::new(vec![
        Field::new("time_s", DataType::Float64, false),
        Field::new("name", name, false),
        Field::new("value", DataType::Float64, false),
    ]));
    let names: ArrayRef = Arc::new(StringArray::from_iter_values(series.iter().map(|series| &series.name)));
    let mut batches = Vec::new();
    for (key, one) in (0i32..).zip(series) {
        if one.times_s.len() != one.values.len() {
            return Err(ArrowError::InvalidArgumentError(format!(
                "series `{}` has {} times and {} values",
                one.name,
                one.times_s.len(),
                one.values.len()
            )));
        }
        if one.values.is_empty() {
            continue;
        }
        let keys = Int32Array::from(vec![key; one.values.len()]);
        let columns: [ArrayRef; 3] = [
            Arc::new(Float64Array::from(one.times_s.clone())),
            Arc::new(DictionaryArray::<Int32Type>::try_new(keys, Arc::clone(&names))?),
            Arc::new(Float64Array::from(one.values.clone())),
        ];
        batches.push(RecordBatch::try_new(Arc::clone(&schema), columns.into())?);
    }
    Ok((schema, batches))
}

/// Writes the table of `series` to the Parquet file `path`, which is there only when it is complete. The same series
/// give the same bytes.
///
/// # Errors
/// `InvalidInput` for a series with more times than values, or fewer; what the file system says.
pub fn write_parquet(path: &Path, series: &[Series]) -> io::Result<()> {
    let (schema, batches) =
        to_record_batches(series).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_created_by(concat!("tidegate version ", env!("CARGO_PKG_VERSION")).to_owned())
        .build();
    write_file(path, |out| {
        let mut writer = ArrowWriter::try_new(out, schema, Some(properties)).map_err(into_io)?;
        batches.iter().try_for_each(|batch| writer.write(batch)).map_err(into_io)?;
        writer.close().map_err(into_io)?;
        Ok(())
    })
}

/// The error of the file beneath, if that is what it is.
fn into_io(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(inner) => *inner,
            Err(inner) => io::Error::other(inner),
        },
        error => io::Error::other(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};

    use arrow_array::Array;
    use arrow_array::cast::AsArray;
    use arrow_array::types::Float64Type;
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

    use crate::folder::tests::Scratch;

    fn series(name: &str, samples: u32, scale: f64) -> Series {
        let times_s: Vec<f64> = (0..samples).map(|k| f64::from(k) * 0.1).collect();
        let values = times_s.iter().map(|time| time * scale + 1.0).collect();
        Series { name: name.into(), times_s, values }
    }

    fn rows(batches: &[RecordBatch]) -> Vec<(u64, String, u64)> {
        let mut rows = Vec::new();
        for batch in batches {
            let (times, values) = (batch["time_s"].as_primitive::<Float64Type>(), &batch["value"]);
            let names = batch["name"].as_dictionary::<Int32Type>().downcast_dict::<StringArray>().unwrap();
            for (row, name) in names.into_iter().enumerate() {
                let value = values.as_primitive::<Float64Type>().value(row);
                rows.push((times.value(row).to_bits(), name.unwrap().to_owned(), value.to_bits()));
            }
        }
        rows
    }

    #[test]
    fn a_parquet_file_reads_back_as_it_was_written() {
        let scratch = Scratch::new("table-round-trip");
        let path = scratch.0.join("series.parquet");
        let table = [
            series("flows.a.cwnd_bytes", 3, 1e3),
            series("none", 0, 0.0),
            series("links.b.queue_packets", 5000, 1.0 / 3.0),
        ];
        write_parquet(&path, &table).unwrap();
        let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(&path).unwrap()).unwrap();
        let metadata = reader.metadata().file_metadata().clone();
        assert_eq!(metadata.created_by(), Some(concat!("tidegate version ", env!("CARGO_PKG_VERSION"))));
        let read: Vec<RecordBatch> = reader.build().unwrap().map(Result::unwrap).collect();
        let (schema, written) = to_record_batches(&table).unwrap();
        assert_eq!(read[0].schema().fields(), schema.fields());
        assert_eq!(rows(&read), rows(&written));
        assert_eq!(rows(&read).len(), 5003);
        assert_eq!(rows(&read)[0], (0.0f64.to_bits(), "flows.a.cwnd_bytes".into(), 1.0f64.to_bits()));
        assert_eq!(scratch.entries(), ["series.parquet"]);
    }

    #[test]
    fn the_same_series_give_the_same_bytes() {
        let scratch = Scratch::new("table-deterministic");
        let table = [series("a", 2000, 0.7), series("b", 1000, -3.0)];
        let bytes = |name: &str| {
            write_parquet(&scratch.0.join(name), &table).unwrap();
            fs::read(scratch.0.join(name)).unwrap()
        };
        assert_eq!(bytes("one.parquet"), bytes("two.parquet"));
    }

    #[test]
    fn a_table_without_series_is_a_whole_file() {
        let scratch = Scratch::new("table-empty");
        let path = scratch.0.join("series.parquet");
        write_parquet(&path, &[]).unwrap();
        let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(&path).unwrap()).unwrap();
        assert_eq!(reader.schema().fields().len(), 3);
        assert_eq!(reader.build().unwrap().count(), 0);
    }

    #[test]
    fn a_series_with_more_times_than_values_is_refused() {
        let scratch = Scratch::new("table-uneven");
        let mut uneven = series("uneven", 3, 1.0);
        uneven.values.pop();
        let error = write_parquet(&scratch.0.join("series.parquet"), &[uneven]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert!(error.to_string().contains("series `uneven` has 3 times and 2 values"), "{error}");
        assert!(scratch.entries().is_empty());
    }

    #[test]
    fn an_error_of_the_file_beneath_keeps_its_kind() {
        let full = io::Error::from(io::ErrorKind::StorageFull);
        assert_eq!(into_io(ParquetError::from(full)).kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn all_batches_share_one_dictionary() {
        let (_, batches) = to_record_batches(&[series("a", 2, 1.0), series("b", 2, 1.0)]).unwrap();
        let values = |batch: &RecordBatch| Arc::clone(batch["name"].as_dictionary::<Int32Type>().values());
        assert!(Arc::ptr_eq(&values(&batches[0]), &values(&batches[1])));
        assert_eq!(values(&batches[0]).len(), 2);
    }
}

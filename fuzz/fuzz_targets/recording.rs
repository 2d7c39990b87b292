//! Any bytes are a recording or are refused, without more memory than there are bytes; what is read can be written again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_wire::recording::{Reader, Record, Writer};

fuzz_target!(|bytes: &[u8]| {
    let Ok((mut reader, configuration)) = Reader::new(bytes) else { return };
    let mut writer = Writer::new(Vec::new(), &configuration);
    let mut end = None;
    while let Ok(Some(record)) = reader.read() {
        match record {
            Record::End(at) => end = Some(at),
            record => writer.write(&record),
        }
    }
    if let Some(at) = end
        && let Ok(Ok(None)) = Ok::<_, ()>(reader.read())
    {
        assert_eq!(writer.finish(at).expect("memory is not full"), bytes, "one form of each recording");
    }
});

//! Compiled kernels: the plan's shared object, loaded from memory.
//!
//! The object is written to an anonymous file and opened from there, so no file of ours appears anywhere. It imports nothing; each kernel is one symbol
//! with the signature [`Function`]. The instruction set level it was compiled for is compared with this processor's before anything of it is called.

use ir::plan::Code;
use ir::{Diagnostic, Result};
use std::ffi::{CStr, CString, c_void};

/// A kernel: buffers (those read, then those written), then run-time scalars.
pub type Function = unsafe extern "C" fn(*const *mut u8, *const i64);

/// A loaded shared object; closed when dropped.
#[derive(Debug)]
pub struct Object {
    handle: *mut c_void,
    descriptor: libc::c_int,
}

// SAFETY: the handle is only looked up in and closed, both of which the dynamic linker synchronises.
unsafe impl Send for Object {}
// SAFETY: as above.
unsafe impl Sync for Object {}

impl Object {
    /// Loads the code of a plan.
    ///
    /// # Errors
    /// `E0605` when the processor lacks instructions, `E0606` when the object does not load.
    pub fn load(code: &Code) -> Result<Object> {
        let missing = missing_features(&code.level);
        if !missing.is_empty() {
            return Err(Diagnostic::outcome("E0605", format!("this plan's code is for {} and this processor lacks {}", code.level, missing.join(", ")))
                .with_help("compile the model again with the level of this processor")
                .into());
        }
        let failed = |what: String| Diagnostic::outcome("E0606", format!("the plan's code cannot be loaded: {what}"));
        // The loader knows objects by their path: while one is open its descriptor stays open too, so that no other object gets the same path.
        // SAFETY: plain system calls with valid arguments; the descriptor is closed on every path, or when the object is dropped.
        unsafe {
            let descriptor = libc::memfd_create(c"shardwright-kernels".as_ptr(), libc::MFD_CLOEXEC);
            if descriptor < 0 {
                return Err(failed(std::io::Error::last_os_error().to_string()).into());
            }
            let mut written = 0;
            while written < code.object.len() {
                let n = libc::write(descriptor, code.object[written..].as_ptr().cast(), code.object.len() - written);
                if n <= 0 {
                    let error = std::io::Error::last_os_error();
                    libc::close(descriptor);
                    return Err(failed(error.to_string()).into());
                }
                written += n.unsigned_abs();
            }
            let path = CString::new(format!("/proc/self/fd/{descriptor}")).expect("invariant: no zero byte");
            let handle = libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
            let error = if handle.is_null() { last_error() } else { String::new() };
            if handle.is_null() {
                libc::close(descriptor);
                return Err(failed(error).into());
            }
            Ok(Object { handle, descriptor })
        }
    }
    /// The kernel of that symbol.
    pub fn function(&self, symbol: &str) -> Option<Function> {
        let symbol = CString::new(symbol).ok()?;
        // SAFETY: the handle is open; a symbol of ours is a function of this signature by the plan's format.
        unsafe {
            let address = libc::dlsym(self.handle, symbol.as_ptr());
            if address.is_null() { None } else { Some(std::mem::transmute::<*mut c_void, Function>(address)) }
        }
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        // SAFETY: opened by `load`; devices keep the object as long as they call its functions.
        unsafe {
            libc::dlclose(self.handle);
            libc::close(self.descriptor);
        }
    }
}

fn last_error() -> String {
    // SAFETY: `dlerror` gives a C string or null.
    unsafe {
        let text = libc::dlerror();
        if text.is_null() { "unknown reason".into() } else { CStr::from_ptr(text).to_string_lossy().into_owned() }
    }
}

/// Instructions of an x86-64 level that this processor lacks.
#[cfg(target_arch = "x86_64")]
fn missing_features(level: &str) -> Vec<&'static str> {
    let v2 = [("ssse3", is_x86_feature_detected!("ssse3")), ("sse4.2", is_x86_feature_detected!("sse4.2")), ("popcnt", is_x86_feature_detected!("popcnt"))];
    let v3 = [
        ("avx2", is_x86_feature_detected!("avx2")),
        ("fma", is_x86_feature_detected!("fma")),
        ("bmi1", is_x86_feature_detected!("bmi1")),
        ("bmi2", is_x86_feature_detected!("bmi2")),
        ("f16c", is_x86_feature_detected!("f16c")),
        ("lzcnt", is_x86_feature_detected!("lzcnt")),
        ("movbe", is_x86_feature_detected!("movbe")),
    ];
    let v4 = [
        ("avx512f", is_x86_feature_detected!("avx512f")),
        ("avx512bw", is_x86_feature_detected!("avx512bw")),
        ("avx512cd", is_x86_feature_detected!("avx512cd")),
        ("avx512dq", is_x86_feature_detected!("avx512dq")),
        ("avx512vl", is_x86_feature_detected!("avx512vl")),
    ];
    let wanted = match level {
        "x86-64-v2" => 1,
        "x86-64-v3" => 2,
        "x86-64-v4" => 3,
        _ => 0,
    };
    let levels: [&[(&'static str, bool)]; 3] = [&v2, &v3, &v4];
    levels[..wanted].iter().flat_map(|l| l.iter()).filter(|(_, there)| !there).map(|(name, _)| *name).collect()
}

/// Other processors run other objects: an x86-64 one does not load at all.
#[cfg(not(target_arch = "x86_64"))]
fn missing_features(_level: &str) -> Vec<&'static str> {
    Vec::new()
}

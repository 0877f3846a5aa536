//! Loads compiled kernels and calls them.

use ir::kernel::Kernel;
use mlir::CpuTarget;
use std::ffi::{CString, c_int, c_void};

/// Loaded code.
pub(crate) struct Library {
    handle: *mut c_void,
    /// Open as long as the code is loaded: the loader knows objects by their path, which names the file by this number.
    file: c_int,
}

impl Library {
    pub(crate) fn compile(kernels: &[&Kernel]) -> Library {
        Library::compile_for(kernels, CpuTarget::V3)
    }
    pub(crate) fn compile_for(kernels: &[&Kernel], target: CpuTarget) -> Library {
        let named: Vec<(String, &Kernel)> = kernels.iter().enumerate().map(|(n, k)| (format!("k{n}"), *k)).collect();
        let bytes = mlir::compile_cpu(&named, target).unwrap_or_else(|e| panic!("{e}"));
        Library::load(&bytes)
    }
    pub(crate) fn load(bytes: &[u8]) -> Library {
        // SAFETY: the file is ours and complete before it is opened; the code imports nothing and has no initialisers.
        unsafe {
            let file = libc::memfd_create(c"kernels".as_ptr(), 0);
            assert!(file >= 0, "memfd_create");
            assert_eq!(libc::write(file, bytes.as_ptr().cast(), bytes.len()), bytes.len() as isize);
            let path = CString::new(format!("/proc/self/fd/{file}")).unwrap();
            let handle = libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
            assert!(!handle.is_null(), "{}", std::ffi::CStr::from_ptr(libc::dlerror()).to_string_lossy());
            Library { handle, file }
        }
    }
    /// Calls kernel `number` on buffers of bytes; outputs are written in place.
    pub(crate) fn call(&self, number: usize, buffers: &mut [Vec<u8>], scalars: &[i64]) {
        let pointers: Vec<*mut u8> = buffers.iter_mut().map(|b| b.as_mut_ptr()).collect();
        // SAFETY: the caller passes buffers of the kernel's sizes, in its order.
        unsafe { self.call_raw(number, &pointers, scalars) }
    }
    /// # Safety
    /// The pointers are the kernel's arguments, in order, of their sizes.
    pub(crate) unsafe fn call_raw(&self, number: usize, pointers: &[*mut u8], scalars: &[i64]) {
        let name = CString::new(format!("k{number}")).unwrap();
        // SAFETY: the symbol has this signature.
        unsafe {
            let symbol = libc::dlsym(self.handle, name.as_ptr());
            assert!(!symbol.is_null(), "no symbol k{number}");
            let function: extern "C" fn(*const *mut u8, *const i64) = std::mem::transmute(symbol);
            function(pointers.as_ptr(), scalars.as_ptr());
        }
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: the handle came from dlopen and no function of it is running.
        unsafe {
            libc::dlclose(self.handle);
            libc::close(self.file);
        }
    }
}

//! Loads compiled kernels and calls them.

use ir::kernel::Kernel;
use mlir::CpuTarget;
use std::ffi::{CString, c_int, c_void};

/// What runs compiled kernels.
pub(crate) trait Machine {
    /// Calls kernel `number` on buffers of bytes; outputs are written in place. Each pair of input and output in `shared` is one buffer, the output's.
    fn call_in_place(&self, number: usize, buffers: &mut [Vec<u8>], shared: &[(u32, u32)], scalars: &[i64]);
    /// Calls kernel `number` on buffers that are apart.
    fn call(&self, number: usize, buffers: &mut [Vec<u8>], scalars: &[i64]) {
        self.call_in_place(number, buffers, &[], scalars);
    }
}

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
    /// # Safety
    /// The pointers are the kernel's arguments, in order, of their sizes.
    unsafe fn call_raw(&self, number: usize, pointers: &[*mut u8], scalars: &[i64]) {
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

impl Machine for Library {
    fn call_in_place(&self, number: usize, buffers: &mut [Vec<u8>], shared: &[(u32, u32)], scalars: &[i64]) {
        let mut pointers: Vec<*mut u8> = buffers.iter_mut().map(|b| b.as_mut_ptr()).collect();
        for &(input, output) in shared {
            pointers[input as usize] = pointers[output as usize];
        }
        // SAFETY: the caller passes buffers of the kernel's sizes, in its order, and shared ones are allowed to be so.
        unsafe { self.call_raw(number, &pointers, scalars) }
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

//! The part of LLVM's C API that makes an object file or assembly text of a module; LLVM itself is linked through `mlir-sys`.
//!
//! **Invariant:** an [`LlvmContext`] and what was made in it never leave the thread that made them.

use crate::error::Error;
use crate::gpu::CudaTarget;
use crate::target::CpuTarget;
use mlir_sys::{LLVMContextRef, LLVMModuleRef};
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::ptr;
use std::sync::Once;

type TargetRef = *mut c_void;
type TargetMachineRef = *mut c_void;
type MemoryBufferRef = *mut c_void;
type PassOptionsRef = *mut c_void;
type ErrorRef = *mut c_void;

const CODE_GEN_LEVEL_DEFAULT: c_int = 2;
const RELOC_PIC: c_int = 2;
const CODE_MODEL_DEFAULT: c_int = 0;
const ASSEMBLY_FILE: c_int = 0;
const OBJECT_FILE: c_int = 1;

unsafe extern "C" {
    fn LLVMContextCreate() -> LLVMContextRef;
    fn LLVMContextDispose(context: LLVMContextRef);
    fn LLVMDisposeModule(module: LLVMModuleRef);
    fn LLVMInitializeX86TargetInfo();
    fn LLVMInitializeX86Target();
    fn LLVMInitializeX86TargetMC();
    fn LLVMInitializeX86AsmPrinter();
    fn LLVMInitializeNVPTXTargetInfo();
    fn LLVMInitializeNVPTXTarget();
    fn LLVMInitializeNVPTXTargetMC();
    fn LLVMInitializeNVPTXAsmPrinter();
    fn LLVMGetTargetFromTriple(triple: *const c_char, target: *mut TargetRef, message: *mut *mut c_char) -> c_int;
    fn LLVMCreateTargetMachine(
        target: TargetRef,
        triple: *const c_char,
        cpu: *const c_char,
        features: *const c_char,
        level: c_int,
        reloc: c_int,
        model: c_int,
    ) -> TargetMachineRef;
    fn LLVMDisposeTargetMachine(machine: TargetMachineRef);
    fn LLVMCreateTargetDataLayout(machine: TargetMachineRef) -> *mut c_void;
    fn LLVMDisposeTargetData(layout: *mut c_void);
    fn LLVMSetModuleDataLayout(module: LLVMModuleRef, layout: *mut c_void);
    fn LLVMSetTarget(module: LLVMModuleRef, triple: *const c_char);
    fn LLVMCreatePassBuilderOptions() -> PassOptionsRef;
    fn LLVMDisposePassBuilderOptions(options: PassOptionsRef);
    fn LLVMRunPasses(module: LLVMModuleRef, passes: *const c_char, machine: TargetMachineRef, options: PassOptionsRef) -> ErrorRef;
    fn LLVMGetErrorMessage(error: ErrorRef) -> *mut c_char;
    fn LLVMDisposeErrorMessage(message: *mut c_char);
    fn LLVMDisposeMessage(message: *mut c_char);
    fn LLVMTargetMachineEmitToMemoryBuffer(
        machine: TargetMachineRef,
        module: LLVMModuleRef,
        file_type: c_int,
        message: *mut *mut c_char,
        buffer: *mut MemoryBufferRef,
    ) -> c_int;
    fn LLVMGetBufferStart(buffer: MemoryBufferRef) -> *const u8;
    fn LLVMGetBufferSize(buffer: MemoryBufferRef) -> usize;
    fn LLVMDisposeMemoryBuffer(buffer: MemoryBufferRef);
    fn LLVMPrintModuleToString(module: LLVMModuleRef) -> *mut c_char;
    fn LLVMGetModuleContext(module: LLVMModuleRef) -> LLVMContextRef;
}

/// What LLVM does to a module before code generation. The kernels come vectorised and with their invariants at the loops they belong to, so that only
/// clean-up is left; loops are not recognised as `memcpy` or `memset`, which would be imports.
const PASSES: &CStr = c"function(early-cse,instcombine<no-verify-fixpoint>,simplifycfg,loop-mssa(loop-rotate,licm),early-cse)";

/// The same for GPUs, whose vectors exist in memory accesses only.
const CUDA_PASSES: &CStr = c"function(scalarizer,early-cse,instcombine<no-verify-fixpoint>,simplifycfg,loop-mssa(loop-rotate,licm),early-cse)";

/// An LLVM context, disposed of on drop.
pub(crate) struct LlvmContext(LLVMContextRef);

impl LlvmContext {
    pub(crate) fn new() -> Self {
        // SAFETY: takes nothing, returns an owned context.
        LlvmContext(unsafe { LLVMContextCreate() })
    }
    pub(crate) fn raw(&self) -> LLVMContextRef {
        self.0
    }
}

impl Drop for LlvmContext {
    fn drop(&mut self) {
        // SAFETY: the context is owned, and modules in it borrow `self`.
        unsafe { LLVMContextDispose(self.0) }
    }
}

/// A module of a context.
pub(crate) struct LlvmModule<'c> {
    raw: LLVMModuleRef,
    _context: &'c LlvmContext,
}

impl<'c> LlvmModule<'c> {
    /// Takes ownership of a module.
    ///
    /// # Safety
    /// `raw` is a module of `context` that nothing else disposes of.
    pub(crate) unsafe fn from_raw(raw: LLVMModuleRef, context: &'c LlvmContext) -> Self {
        // SAFETY: the caller gives a valid module.
        debug_assert_eq!(unsafe { LLVMGetModuleContext(raw) }, context.0);
        LlvmModule { raw, _context: context }
    }
    /// The module as LLVM prints it.
    pub(crate) fn text(&self) -> String {
        // SAFETY: the module is valid; the message is copied and then disposed of.
        unsafe {
            let raw = LLVMPrintModuleToString(self.raw);
            let text = CStr::from_ptr(raw).to_string_lossy().into_owned();
            LLVMDisposeMessage(raw);
            text
        }
    }
    /// Optimises the module for `target`.
    pub(crate) fn optimise(&self, machine: &TargetMachine) -> Result<(), Error> {
        // SAFETY: module, machine and options are valid for the calls; the layout is copied by the module.
        unsafe {
            LLVMSetTarget(self.raw, machine.kind.triple().as_ptr());
            let layout = LLVMCreateTargetDataLayout(machine.raw);
            LLVMSetModuleDataLayout(self.raw, layout);
            LLVMDisposeTargetData(layout);
            let options = LLVMCreatePassBuilderOptions();
            let error = LLVMRunPasses(self.raw, machine.kind.passes().as_ptr(), machine.raw, options);
            LLVMDisposePassBuilderOptions(options);
            if error.is_null() {
                return Ok(());
            }
            let message = LLVMGetErrorMessage(error);
            let text = CStr::from_ptr(message).to_string_lossy().into_owned();
            LLVMDisposeErrorMessage(message);
            Err(Error::Llvm(text))
        }
    }
    /// The object file of the module.
    pub(crate) fn object(&self, machine: &TargetMachine) -> Result<Vec<u8>, Error> {
        self.emitted(machine, OBJECT_FILE)
    }
    /// The assembly text of the module.
    pub(crate) fn assembly(&self, machine: &TargetMachine) -> Result<Vec<u8>, Error> {
        self.emitted(machine, ASSEMBLY_FILE)
    }
    fn emitted(&self, machine: &TargetMachine, kind: c_int) -> Result<Vec<u8>, Error> {
        // SAFETY: module and machine are valid; the buffer is copied and disposed of, as is the message on failure.
        unsafe {
            let (mut message, mut buffer) = (ptr::null_mut(), ptr::null_mut());
            if LLVMTargetMachineEmitToMemoryBuffer(machine.raw, self.raw, kind, &mut message, &mut buffer) != 0 {
                return Err(Error::Llvm(take_message(message)));
            }
            let bytes = std::slice::from_raw_parts(LLVMGetBufferStart(buffer), LLVMGetBufferSize(buffer)).to_vec();
            LLVMDisposeMemoryBuffer(buffer);
            Ok(bytes)
        }
    }
}

impl Drop for LlvmModule<'_> {
    fn drop(&mut self) {
        // SAFETY: the module is owned and its context outlives it.
        unsafe { LLVMDisposeModule(self.raw) }
    }
}

/// # Safety
/// `message` is null or a message of LLVM's, owned.
unsafe fn take_message(message: *mut c_char) -> String {
    if message.is_null() {
        return "no message".to_owned();
    }
    // SAFETY: by the caller, a C string.
    let text = unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned();
    // SAFETY: by the caller, owned and LLVM's.
    unsafe { LLVMDisposeMessage(message) };
    text
}

/// What code is made for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Machine {
    Cpu(CpuTarget),
    Cuda(CudaTarget),
}

impl Machine {
    fn triple(self) -> &'static CStr {
        match self {
            Machine::Cpu(_) => c"x86_64-unknown-linux-gnu",
            Machine::Cuda(_) => c"nvptx64-nvidia-cuda",
        }
    }
    fn passes(self) -> &'static CStr {
        match self {
            Machine::Cpu(_) => PASSES,
            Machine::Cuda(_) => CUDA_PASSES,
        }
    }
    /// LLVM's names of the processor and of the features beside.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Machine::Cpu(target) => (target.level(), ""),
            Machine::Cuda(target) => (target.level(), target.features()),
        }
    }
}

/// A target machine, disposed of on drop.
pub(crate) struct TargetMachine {
    raw: TargetMachineRef,
    kind: Machine,
}

impl TargetMachine {
    pub(crate) fn new(kind: Machine) -> Result<Self, Error> {
        static INITIALISED: Once = Once::new();
        INITIALISED.call_once(|| {
            // SAFETY: registration is done once, before any target is looked up.
            unsafe {
                LLVMInitializeX86TargetInfo();
                LLVMInitializeX86Target();
                LLVMInitializeX86TargetMC();
                LLVMInitializeX86AsmPrinter();
                LLVMInitializeNVPTXTargetInfo();
                LLVMInitializeNVPTXTarget();
                LLVMInitializeNVPTXTargetMC();
                LLVMInitializeNVPTXAsmPrinter();
            }
        });
        let triple = kind.triple();
        let (cpu, features) = kind.names();
        let named = |name: &str| CString::new(name).map_err(|e| Error::Llvm(e.to_string()));
        let (cpu, features) = (named(cpu)?, named(features)?);
        // SAFETY: the strings outlive the calls; the target is LLVM's own and lives as long as the process.
        unsafe {
            let (mut found, mut message) = (ptr::null_mut(), ptr::null_mut());
            if LLVMGetTargetFromTriple(triple.as_ptr(), &mut found, &mut message) != 0 {
                return Err(Error::Llvm(take_message(message)));
            }
            let raw = LLVMCreateTargetMachine(found, triple.as_ptr(), cpu.as_ptr(), features.as_ptr(), CODE_GEN_LEVEL_DEFAULT, RELOC_PIC, CODE_MODEL_DEFAULT);
            if raw.is_null() { Err(Error::Llvm(format!("no target machine for {kind:?}"))) } else { Ok(TargetMachine { raw, kind }) }
        }
    }
}

impl Drop for TargetMachine {
    fn drop(&mut self) {
        // SAFETY: the machine is owned.
        unsafe { LLVMDisposeTargetMachine(self.raw) }
    }
}

/// The major version of the LLVM that is linked.
pub(crate) fn version() -> u32 {
    unsafe extern "C" {
        fn LLVMGetVersion(major: *mut c_uint, minor: *mut c_uint, patch: *mut c_uint);
    }
    let (mut major, mut minor, mut patch) = (0, 0, 0);
    // SAFETY: the three are writable.
    unsafe { LLVMGetVersion(&mut major, &mut minor, &mut patch) };
    major
}

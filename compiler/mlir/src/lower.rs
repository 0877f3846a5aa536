//! MLIR text to LLVM IR: parse, convert `scf`, `arith` and `vector` to the LLVM dialect, translate.

use crate::error::Error;
use crate::llvm::{LlvmContext, LlvmModule};
use melior::Context;
use melior::dialect::DialectRegistry;
use melior::ir::Module;
use melior::pass::{PassManager, conversion};
use melior::utility::{register_all_dialects, register_all_llvm_translations};

/// An MLIR context with the dialects that kernels are written in.
pub(crate) fn context() -> Context {
    let registry = DialectRegistry::new();
    register_all_dialects(&registry);
    let context = Context::new_with_registry(&registry, false);
    register_all_llvm_translations(&context);
    context
}

/// Translates a module's text.
pub(crate) fn to_llvm<'c>(context: &Context, text: &str, llvm: &'c LlvmContext) -> Result<LlvmModule<'c>, Error> {
    let messages = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let sink = messages.clone();
    let handler = context.attach_diagnostic_handler(move |diagnostic| {
        sink.lock().expect("invariant: no holder panics").push(diagnostic.to_string());
        true
    });
    let fail = |what: &str| Error::Mlir(format!("{what}: {}", messages.lock().expect("invariant: no holder panics").join("; ")));
    let result = (|| {
        let mut module = Module::parse(context, text).ok_or_else(|| fail("a kernel's text does not parse"))?;
        let passes = PassManager::new(context);
        passes.enable_verifier(cfg!(debug_assertions));
        passes.add_pass(conversion::create_scf_to_control_flow());
        passes.add_pass(conversion::create_to_llvm());
        passes.run(&mut module).map_err(|_| fail("a conversion to the LLVM dialect failed"))?;
        // SAFETY: the module is in the LLVM dialect and the context lives; the result is owned by the caller or null.
        let raw = unsafe { mlir_sys::mlirTranslateModuleToLLVMIR(module.as_operation().to_raw(), llvm.raw()) };
        if raw.is_null() {
            return Err(fail("the translation to LLVM IR failed"));
        }
        // SAFETY: just made in this context, owned.
        Ok(unsafe { LlvmModule::from_raw(raw, llvm) })
    })();
    context.detach_diagnostic_handler(handler);
    result
}

//! The real thing: cards of this machine through `cudarc`, whose libraries are looked for when they are needed.

mod communicators;

use crate::driver::{Address, Card, Communicator, Driver, Event, Failure, Function, Graph, GroupName, Module, Prepared, Shape, Stream, Transfer};
use crate::product::Product;
use cudarc::cublaslt::{result as lt, sys as lts};
use cudarc::driver::{result as cu, sys};
use ir::{DType, Diagnostic};
use std::ffi::{CString, c_void};
use std::sync::{Arc, Mutex, PoisonError};

/// A matrix product that is ready to be called.
struct Ready {
    description: lts::cublasLtMatmulDesc_t,
    layouts: [lts::cublasLtMatrixLayout_t; 3],
    algorithm: lts::cublasLtMatmulAlgo_t,
    double: bool,
    accumulate: bool,
}

/// A card of this machine. What it holds is given back when the process ends.
struct CudaCard {
    card: Card,
    context: sys::CUcontext,
    library: Option<lts::cublasLtHandle_t>,
    products: Mutex<Vec<Arc<Ready>>>,
}

// SAFETY: contexts, and handles and descriptions of cuBLASLt, may be used on any thread; every call sets its context first.
unsafe impl Send for CudaCard {}
// SAFETY: as above.
unsafe impl Sync for CudaCard {}
// SAFETY: descriptions are only read after they were made.
unsafe impl Send for Ready {}
// SAFETY: as above.
unsafe impl Sync for Ready {}

fn cuda<T>(doing: &str, result: Result<T, cu::DriverError>) -> Result<T, Failure> {
    result.map_err(|e| {
        let name = e.error_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_else(|_| format!("{:?}", e.0));
        let text = e.error_string().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        Failure { doing: doing.into(), reason: format!("{name} ({text})") }
    })
}

fn library<T>(doing: &str, result: Result<T, lt::CublasError>) -> Result<T, Failure> {
    result.map_err(|e| Failure { doing: doing.into(), reason: format!("cuBLASLt: {:?}", e.0) })
}

/// The cards of this machine, with access to each other's memory.
///
/// # Errors
/// `E0670` no driver or no card, `E0674` when one fails, `E0675` cards that cannot reach each other, `E0678` no cuBLASLt.
pub fn cards(ranks: u32) -> Result<Vec<Arc<dyn Driver>>, Diagnostic> {
    let none = |why: &str| {
        Diagnostic::outcome("E0670", format!("there is no GPU to run on: {why}"))
            .with_note("`--device cuda` needs an NVIDIA GPU of sm_80 or later with its driver")
            .with_help("`--device ptx-emulator` executes the plan's CUDA code slowly without a GPU; a plan compiled with `--target cpu` runs on the processor")
    };
    let failed = |f: Failure| none(&format!("CUDA failed while {}: {}", f.doing, f.reason));
    // SAFETY: asks the loader only.
    if !unsafe { sys::is_culib_present() } {
        return Err(none("the NVIDIA driver's library, libcuda.so, is not installed"));
    }
    cuda("starting", cu::init()).map_err(failed)?;
    let count = cuda("counting cards", cu::device::get_count()).map_err(failed)?;
    if count == 0 {
        return Err(none("the driver lists no card (is CUDA_VISIBLE_DEVICES empty?)"));
    }
    // SAFETY: asks the loader only.
    if !unsafe { lts::is_culib_present() } {
        let d = Diagnostic::outcome("E0678", "cuBLASLt, which does matrix products, is not installed: libcublasLt.so.12 was not found");
        return Err(d.with_help("install the CUDA toolkit's libraries or `pip install nvidia-cublas-cu12`, and name their folder in LD_LIBRARY_PATH"));
    }
    let mut cards = Vec::new();
    for i in 0..count.min(ranks as i32) {
        cards.push(CudaCard::open(i).map_err(failed)?);
    }
    for (i, a) in cards.iter().enumerate() {
        for (j, b) in cards.iter().enumerate().filter(|(j, _)| *j != i) {
            reach(a, b).map_err(|why| {
                Diagnostic::outcome("E0675", format!("GPU {i} ({}) has no access to the memory of GPU {j} ({}): {why}", a.card.name, b.card.name))
                    .with_help("put all ranks on one of them with `CUDA_VISIBLE_DEVICES=0`, or use cards that NVLink or one PCIe root connects")
            })?;
        }
    }
    Ok(cards.into_iter().map(|c| Arc::new(c) as Arc<dyn Driver>).collect())
}

/// Gives one card access to another's memory.
fn reach(a: &CudaCard, b: &CudaCard) -> Result<(), String> {
    a.bind().map_err(|f| f.reason)?;
    // SAFETY: both contexts are alive.
    match unsafe { sys::cuCtxEnablePeerAccess(b.context, 0) } {
        sys::CUresult::CUDA_SUCCESS | sys::CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED => Ok(()),
        other => Err(format!("{other:?}")),
    }
}

impl CudaCard {
    fn open(ordinal: i32) -> Result<CudaCard, Failure> {
        use sys::CUdevice_attribute::{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR as MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR as MINOR};
        let device = cuda("finding a card", cu::device::get(ordinal))?;
        // SAFETY: the device was just found; its primary context is kept to the end of the process.
        unsafe {
            let context = cuda("making a context", cu::primary_ctx::retain(device))?;
            cuda("making a context", cu::ctx::set_current(context))?;
            let attribute = |a| cuda("reading the compute capability", cu::device::get_attribute(device, a)).map(|v| v as u32);
            let mut version = 0;
            cuda("reading the driver's version", sys::cuDriverGetVersion(&mut version).result())?;
            let (free, total) = cuda("reading free memory", cu::mem_get_info())?;
            let card = Card {
                name: cuda("reading the card's name", cu::device::get_name(device))?,
                capability: (attribute(MAJOR)?, attribute(MINOR)?),
                memory: (total as u64, free as u64),
                version: (version as u32 / 1000, version as u32 % 1000 / 10),
            };
            let library = Some(library("starting cuBLASLt", lt::create_handle())?);
            Ok(CudaCard { card, context, library, products: Mutex::default() })
        }
    }
    fn bind(&self) -> Result<(), Failure> {
        // SAFETY: the context lives to the end of the process.
        cuda("choosing a card", unsafe { cu::ctx::set_current(self.context) })
    }
}

fn stream(s: Stream) -> sys::CUstream {
    std::ptr::with_exposed_provenance_mut(s.0 as usize)
}
fn event(e: Event) -> sys::CUevent {
    std::ptr::with_exposed_provenance_mut(e.0 as usize)
}
fn handle<T>(pointer: *mut T) -> u64 {
    pointer.expose_provenance() as u64
}

fn element_type(dtype: DType) -> lts::cudaDataType {
    match dtype {
        DType::F64 => lts::cudaDataType::CUDA_R_64F,
        DType::F16 => lts::cudaDataType::CUDA_R_16F,
        DType::BF16 => lts::cudaDataType::CUDA_R_16BF,
        _ => lts::cudaDataType::CUDA_R_32F,
    }
}

impl Driver for CudaCard {
    fn card(&self) -> &Card {
        &self.card
    }

    fn allocate(&self, bytes: usize) -> Result<Address, Failure> {
        self.bind()?;
        let doing = format!("allocating {bytes} bytes");
        // SAFETY: zeroed before anybody sees it.
        unsafe {
            let address = cuda(&doing, cu::malloc_sync(bytes))?;
            cuda(&doing, cu::memset_d8_sync(address, 0, bytes))?;
            Ok(address)
        }
    }

    fn pinned(&self, bytes: usize) -> Result<*mut u8, Failure> {
        self.bind()?;
        // SAFETY: never given back.
        cuda("allocating pinned memory", unsafe { cu::malloc_host(bytes, 0) }).map(<*mut c_void>::cast)
    }

    fn load(&self, ptx: &str) -> Result<Module, Failure> {
        self.bind()?;
        let text = CString::new(ptx).map_err(|e| Failure { doing: "loading code".into(), reason: e.to_string() })?;
        // SAFETY: text that ends with a zero byte.
        cuda("loading code", unsafe { cu::module::load_data(text.as_ptr().cast()) }).map(|m| Module(handle(m)))
    }

    fn function(&self, module: Module, entry: &str, shared: u32) -> Result<Function, Failure> {
        use sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES as SHARED;
        self.bind()?;
        let doing = format!("looking up {entry}");
        let name = CString::new(entry).map_err(|e| Failure { doing: doing.clone(), reason: e.to_string() })?;
        let module = std::ptr::with_exposed_provenance_mut(module.0 as usize);
        // SAFETY: the module is loaded and stays so.
        unsafe {
            let function = cuda(&doing, cu::module::get_function(module, name))?;
            // Without being asked a kernel may have 48 KiB.
            if shared > 48 << 10 {
                let doing = format!("letting {entry} have {shared} bytes of shared memory");
                cuda(&doing, cu::function::set_function_attribute(function, SHARED, shared as i32))?;
            }
            Ok(Function(handle(function)))
        }
    }

    fn stream(&self, communicates: bool) -> Result<Stream, Failure> {
        self.bind()?;
        let (least, greatest) = cuda("making a stream", cu::stream::get_priority_range())?;
        let priority = if communicates { greatest } else { least };
        cuda("making a stream", cu::stream::create_with_priority(cu::stream::StreamKind::NonBlocking, priority)).map(|s| Stream(handle(s)))
    }

    fn event(&self) -> Result<Event, Failure> {
        self.bind()?;
        cuda("making an event", cu::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING)).map(|e| Event(handle(e)))
    }

    fn timer(&self) -> Result<Event, Failure> {
        self.bind()?;
        cuda("making an event", cu::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT)).map(|e| Event(handle(e)))
    }

    fn seconds(&self, from: Event, to: Event) -> Result<f64, Failure> {
        self.bind()?;
        // SAFETY: both live to the end of the process.
        cuda("reading a time", unsafe { cu::event::elapsed(event(from), event(to)) }).map(|ms| f64::from(ms) / 1e3)
    }

    fn product(&self, p: &Product, tf32: bool, alignment: u32, workspace: usize) -> Result<Prepared, Failure> {
        use lts::cublasComputeType_t as Compute;
        use lts::cublasLtMatmulDescAttributes_t::{CUBLASLT_MATMUL_DESC_TRANSA as TRANSA, CUBLASLT_MATMUL_DESC_TRANSB as TRANSB};
        use lts::cublasLtMatmulPreferenceAttributes_t as Preference;
        use lts::cublasLtMatrixLayoutAttribute_t::{CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT as BATCH, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET as OFFSET};
        self.bind()?;
        let doing = format!("preparing a product of {}×{}×{} {}", p.m, p.n, p.k, p.dtype);
        let check = |r: Result<(), lt::CublasError>| library(&doing, r);
        let double = p.dtype == DType::F64;
        let (compute, scale) = match p.dtype {
            DType::F64 => (Compute::CUBLAS_COMPUTE_64F, lts::cudaDataType::CUDA_R_64F),
            DType::F32 if tf32 => (Compute::CUBLAS_COMPUTE_32F_FAST_TF32, lts::cudaDataType::CUDA_R_32F),
            _ => (Compute::CUBLAS_COMPUTE_32F, lts::cudaDataType::CUDA_R_32F),
        };
        // SAFETY: attributes are given with values of their documented types; descriptions live to the end of the process.
        unsafe {
            let description = library(&doing, lt::create_matmul_desc(compute, scale))?;
            for (attribute, t) in [(TRANSA, p.transposed.0), (TRANSB, p.transposed.1)] {
                let operation = i32::from(t);
                check(lt::set_matmul_desc_attribute(description, attribute, (&raw const operation).cast(), size_of::<i32>()))?;
            }
            let layout = |dtype, rows: u64, columns: u64, ld: u64, stride: u64| {
                let layout = library(&doing, lt::create_matrix_layout(element_type(dtype), rows, columns, ld as i64))?;
                let (count, stride) = (p.batch as i32, stride as i64);
                check(lt::set_matrix_layout_attribute(layout, BATCH, (&raw const count).cast(), size_of::<i32>()))?;
                check(lt::set_matrix_layout_attribute(layout, OFFSET, (&raw const stride).cast(), size_of::<i64>()))?;
                Ok::<_, Failure>(layout)
            };
            let stored = |t: bool, rows: u64, columns: u64| if t { (columns, rows) } else { (rows, columns) };
            let ((ar, ac), (br, bc)) = (stored(p.transposed.0, p.m, p.k), stored(p.transposed.1, p.k, p.n));
            let layouts = [
                layout(p.dtype, ar, ac, p.ld.0, p.strides.0)?,
                layout(p.dtype, br, bc, p.ld.1, p.strides.1)?,
                layout(p.result, p.m, p.n, p.ld.2, p.strides.2)?,
            ];
            let preference = library(&doing, lt::create_matmul_pref())?;
            let bytes = workspace as u64;
            let most = Preference::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
            check(lt::set_matmul_pref_attribute(preference, most, (&raw const bytes).cast(), size_of::<u64>()))?;
            for attribute in [
                Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
                Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
                Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
            ] {
                check(lt::set_matmul_pref_attribute(preference, attribute, (&raw const alignment).cast(), size_of::<u32>()))?;
            }
            let handle = self.library.expect("invariant: a card has the library");
            let [a, b, d] = layouts;
            let found = library(&doing, lt::get_matmul_algo_heuristic(handle, description, a, b, d, d, preference))?;
            check(lt::destroy_matmul_pref(preference))?;
            let mut products = self.products.lock().unwrap_or_else(PoisonError::into_inner);
            products.push(Arc::new(Ready { description, layouts, algorithm: found.algo, double, accumulate: p.accumulate }));
            Ok(Prepared(products.len() as u32 - 1))
        }
    }

    unsafe fn launch(&self, s: Stream, function: Function, shape: Shape, parameters: &[u64]) -> Result<(), Failure> {
        self.bind()?;
        let mut values = parameters.to_vec();
        let mut pointers: Vec<*mut c_void> = values.iter_mut().map(|v| std::ptr::from_mut(v).cast()).collect();
        let three = |v: [u32; 3]| (v[0], v[1], v[2]);
        let function = std::ptr::with_exposed_provenance_mut(function.0 as usize);
        // SAFETY: as the caller vouches; parameters are copied by the call.
        cuda("starting a kernel", unsafe { cu::launch_kernel(function, three(shape.grid), three(shape.block), shape.shared, stream(s), &mut pointers) })
    }

    unsafe fn multiply(&self, s: Stream, product: Prepared, [a, b, d]: [Address; 3], workspace: (Address, usize)) -> Result<(), Failure> {
        self.bind()?;
        let ready = self.products.lock().unwrap_or_else(PoisonError::into_inner)[product.0 as usize].clone();
        let (one, beta) = (1.0f32, if ready.accumulate { 1.0f32 } else { 0.0 });
        let (one64, beta64) = (1.0f64, f64::from(beta));
        let (alpha, beta): (*const c_void, *const c_void) =
            if ready.double { ((&raw const one64).cast(), (&raw const beta64).cast()) } else { ((&raw const one).cast(), (&raw const beta).cast()) };
        let at = |address: Address| std::ptr::with_exposed_provenance_mut::<c_void>(address as usize);
        let [la, lb, ld] = ready.layouts;
        // SAFETY: as the caller vouches; the factors are the host's and read by the call.
        let done = unsafe {
            lt::matmul(
                self.library.expect("invariant: a card has the library"),
                ready.description,
                alpha,
                beta,
                at(a),
                la,
                at(b),
                lb,
                at(d),
                ld,
                at(d),
                ld,
                &raw const ready.algorithm,
                at(workspace.0),
                workspace.1,
                stream(s).cast(),
            )
        };
        library("starting a product", done)
    }

    unsafe fn copy(&self, s: Stream, from: Address, to: Address, bytes: usize) -> Result<(), Failure> {
        self.bind()?;
        // SAFETY: as the caller vouches.
        cuda("copying", unsafe { cu::memcpy_dtod_async(to, from, bytes, stream(s)) })
    }
    unsafe fn set(&self, s: Stream, to: Address, byte: u8, bytes: usize) -> Result<(), Failure> {
        self.bind()?;
        // SAFETY: as the caller vouches.
        cuda("setting memory", unsafe { cu::memset_d8_async(to, byte, bytes, stream(s)) })
    }
    unsafe fn upload(&self, s: Stream, from: *const u8, to: Address, bytes: usize) -> Result<(), Failure> {
        self.bind()?;
        // SAFETY: as the caller vouches.
        cuda("copying to the card", unsafe { sys::cuMemcpyHtoDAsync_v2(to, from.cast(), bytes, stream(s)).result() })
    }
    unsafe fn download(&self, s: Stream, from: Address, to: *mut u8, bytes: usize) -> Result<(), Failure> {
        self.bind()?;
        // SAFETY: as the caller vouches.
        cuda("copying from the card", unsafe { sys::cuMemcpyDtoHAsync_v2(to.cast(), from, bytes, stream(s)).result() })
    }
    fn record(&self, s: Stream, e: Event) -> Result<(), Failure> {
        self.bind()?;
        // SAFETY: both live to the end of the process.
        cuda("recording an event", unsafe { cu::event::record(event(e), stream(s)) })
    }
    fn wait(&self, s: Stream, e: Event) -> Result<(), Failure> {
        self.bind()?;
        // SAFETY: both live to the end of the process.
        cuda("waiting for an event", unsafe { cu::stream::wait_event(stream(s), event(e), sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT) })
    }
    fn synchronize(&self, s: Stream) -> Result<(), Failure> {
        self.bind()?;
        // SAFETY: the stream lives to the end of the process.
        cuda("computing", unsafe { cu::stream::synchronize(stream(s)) })
    }
    fn capture(&self, s: Stream) -> Result<(), Failure> {
        self.bind()?;
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream lives to the end of the process.
        cuda("beginning a capture", unsafe { cu::stream::begin_capture(stream(s), mode) })
    }
    fn captured(&self, s: Stream) -> Result<Graph, Failure> {
        self.bind()?;
        // SAFETY: the stream is this thread's to capture; the graph is instantiated before it is given up, and what was instantiated is kept.
        unsafe {
            let graph = cuda("ending a capture", cu::stream::end_capture(stream(s)))?;
            if graph.is_null() {
                return Err(Failure { doing: "ending a capture".into(), reason: "what was begun cannot be captured".into() });
            }
            let mut ready = std::ptr::null_mut();
            let made = sys::cuGraphInstantiateWithFlags(&raw mut ready, graph, 0).result();
            cuda("giving up a graph's description", sys::cuGraphDestroy(graph).result())?;
            cuda("instantiating a graph", made)?;
            cuda("preparing a graph", cu::graph::upload(ready, stream(s)))?;
            Ok(Graph(handle(ready)))
        }
    }
    unsafe fn replay(&self, s: Stream, graph: Graph) -> Result<(), Failure> {
        self.bind()?;
        // SAFETY: as the caller vouches; the graph lives to the end of the process.
        cuda("launching a graph", unsafe { cu::graph::launch(std::ptr::with_exposed_provenance_mut(graph.0 as usize), stream(s)) })
    }
    fn exchanges(&self) -> bool {
        communicators::present()
    }
    fn name_group(&self) -> Result<GroupName, Failure> {
        communicators::name()
    }
    fn join(&self, name: &GroupName, members: u32, me: u32) -> Result<Communicator, Failure> {
        self.bind()?;
        communicators::join(name, members, me)
    }
    unsafe fn exchange(&self, s: Stream, communicator: Communicator, transfers: &[Transfer]) -> Result<(), Failure> {
        self.bind()?;
        // SAFETY: as the caller vouches.
        unsafe { communicators::exchange(self, s, communicator, transfers) }
    }
}

"""Classes and functions of scikit-learn that fitted models consist of, each by its full name.

The lists are closed: a name of a later version is on none of them before somebody has read what its
object calls, opens and runs when it predicts. A test compares them with the installed version.
Original to kdgraph.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping


def _names(text: str) -> Iterator[str]:
    """Yield ``module:name`` for the names behind ``module:``, which may go on in further lines."""
    module = ""
    for line in text.splitlines():
        start, colon, names = line.rpartition(":")
        module = start if colon else module
        yield from (f"{module}:{name}" for name in names.split())


# Estimators, kernels, splitters of cross-validation, losses and links; and private classes that
# fitted public estimators have as attributes: no public API rebuilds a fitted estimator from its
# parts. A scorer calls a method that one of its fields names; the module checks restricts it to
# methods that predict.
CLASSES = frozenset(
    _names("""
sklearn._loss.link: HalfLogitLink IdentityLink Interval LogLink LogitLink MultinomialLogit
sklearn._loss.loss: AbsoluteError ExponentialLoss HalfBinomialLoss HalfGammaLoss
  HalfMultinomialLoss HalfPoissonLoss HalfSquaredError HalfTweedieLoss HalfTweedieLossIdentity
  HuberLoss PinballLoss
sklearn.calibration: CalibratedClassifierCV _CalibratedClassifier _SigmoidCalibration
  _TemperatureScaling
sklearn.cluster._affinity_propagation: AffinityPropagation
sklearn.cluster._agglomerative: AgglomerativeClustering FeatureAgglomeration
sklearn.cluster._bicluster: SpectralBiclustering SpectralCoclustering
sklearn.cluster._birch: Birch _CFNode _CFSubcluster
sklearn.cluster._bisect_k_means: BisectingKMeans _BisectingTree
sklearn.cluster._dbscan: DBSCAN
sklearn.cluster._hdbscan.hdbscan: HDBSCAN
sklearn.cluster._kmeans: KMeans MiniBatchKMeans
sklearn.cluster._mean_shift: MeanShift
sklearn.cluster._optics: OPTICS
sklearn.cluster._spectral: SpectralClustering
sklearn.compose._column_transformer: ColumnTransformer make_column_selector
sklearn.compose._target: TransformedTargetRegressor
sklearn.covariance._elliptic_envelope: EllipticEnvelope
sklearn.covariance._empirical_covariance: EmpiricalCovariance
sklearn.covariance._graph_lasso: GraphicalLasso GraphicalLassoCV
sklearn.covariance._robust_covariance: MinCovDet
sklearn.covariance._shrunk_covariance: LedoitWolf OAS ShrunkCovariance
sklearn.cross_decomposition._pls: CCA PLSCanonical PLSRegression PLSSVD
sklearn.decomposition._dict_learning: DictionaryLearning MiniBatchDictionaryLearning SparseCoder
sklearn.decomposition._factor_analysis: FactorAnalysis
sklearn.decomposition._fastica: FastICA
sklearn.decomposition._incremental_pca: IncrementalPCA
sklearn.decomposition._kernel_pca: KernelPCA
sklearn.decomposition._lda: LatentDirichletAllocation
sklearn.decomposition._nmf: MiniBatchNMF NMF
sklearn.decomposition._pca: PCA
sklearn.decomposition._sparse_pca: MiniBatchSparsePCA SparsePCA
sklearn.decomposition._truncated_svd: TruncatedSVD
sklearn.discriminant_analysis: LinearDiscriminantAnalysis QuadraticDiscriminantAnalysis
sklearn.dummy: DummyClassifier DummyRegressor
sklearn.ensemble._bagging: BaggingClassifier BaggingRegressor
sklearn.ensemble._forest: ExtraTreesClassifier ExtraTreesRegressor RandomForestClassifier
  RandomForestRegressor RandomTreesEmbedding
sklearn.ensemble._gb: GradientBoostingClassifier GradientBoostingRegressor
sklearn.ensemble._hist_gradient_boosting.binning: _BinMapper
sklearn.ensemble._hist_gradient_boosting.gradient_boosting: HistGradientBoostingClassifier
  HistGradientBoostingRegressor
sklearn.ensemble._hist_gradient_boosting.predictor: TreePredictor
sklearn.ensemble._iforest: IsolationForest
sklearn.ensemble._stacking: StackingClassifier StackingRegressor
sklearn.ensemble._voting: VotingClassifier VotingRegressor
sklearn.ensemble._weight_boosting: AdaBoostClassifier AdaBoostRegressor
sklearn.feature_extraction._dict_vectorizer: DictVectorizer
sklearn.feature_extraction._hash: FeatureHasher
sklearn.feature_extraction.image: PatchExtractor
sklearn.feature_extraction.text: CountVectorizer HashingVectorizer TfidfTransformer TfidfVectorizer
sklearn.feature_selection._from_model: SelectFromModel
sklearn.feature_selection._rfe: RFE RFECV
sklearn.feature_selection._sequential: SequentialFeatureSelector
sklearn.feature_selection._univariate_selection: GenericUnivariateSelect SelectFdr SelectFpr
  SelectFwe SelectKBest SelectPercentile
sklearn.feature_selection._variance_threshold: VarianceThreshold
sklearn.frozen._frozen: FrozenEstimator
sklearn.gaussian_process._gpc: GaussianProcessClassifier _BinaryGaussianProcessClassifierLaplace
sklearn.gaussian_process._gpr: GaussianProcessRegressor
sklearn.gaussian_process.kernels: CompoundKernel ConstantKernel DotProduct ExpSineSquared
  Exponentiation Matern PairwiseKernel Product RBF RationalQuadratic Sum WhiteKernel
sklearn.impute._base: MissingIndicator SimpleImputer
sklearn.impute._iterative: IterativeImputer _ImputerTriplet
sklearn.impute._knn: KNNImputer
sklearn.isotonic: IsotonicRegression
sklearn.kernel_approximation: AdditiveChi2Sampler Nystroem PolynomialCountSketch RBFSampler
  SkewedChi2Sampler
sklearn.kernel_ridge: KernelRidge
sklearn.linear_model._base: LinearRegression
sklearn.linear_model._bayes: ARDRegression BayesianRidge
sklearn.linear_model._coordinate_descent: ElasticNet ElasticNetCV Lasso LassoCV MultiTaskElasticNet
  MultiTaskElasticNetCV MultiTaskLasso MultiTaskLassoCV
sklearn.linear_model._glm.glm: GammaRegressor PoissonRegressor TweedieRegressor
sklearn.linear_model._huber: HuberRegressor
sklearn.linear_model._least_angle: Lars LarsCV LassoLars LassoLarsCV LassoLarsIC
sklearn.linear_model._logistic: LogisticRegression LogisticRegressionCV
sklearn.linear_model._omp: OrthogonalMatchingPursuit OrthogonalMatchingPursuitCV
sklearn.linear_model._passive_aggressive: PassiveAggressiveClassifier PassiveAggressiveRegressor
sklearn.linear_model._perceptron: Perceptron
sklearn.linear_model._quantile: QuantileRegressor
sklearn.linear_model._ransac: RANSACRegressor
sklearn.linear_model._ridge: Ridge RidgeCV RidgeClassifier RidgeClassifierCV
sklearn.linear_model._stochastic_gradient: SGDClassifier SGDOneClassSVM SGDRegressor
sklearn.linear_model._theil_sen: TheilSenRegressor
sklearn.manifold._classical_mds: ClassicalMDS
sklearn.manifold._isomap: Isomap
sklearn.manifold._locally_linear: LocallyLinearEmbedding
sklearn.manifold._mds: MDS
sklearn.manifold._spectral_embedding: SpectralEmbedding
sklearn.manifold._t_sne: TSNE
sklearn.metrics._scorer: _CurveScorer _PassthroughScorer _Scorer
sklearn.mixture._bayesian_mixture: BayesianGaussianMixture
sklearn.mixture._gaussian_mixture: GaussianMixture
sklearn.model_selection._classification_threshold: FixedThresholdClassifier
  TunedThresholdClassifierCV
sklearn.model_selection._search: GridSearchCV RandomizedSearchCV
sklearn.model_selection._search_successive_halving: HalvingGridSearchCV HalvingRandomSearchCV
sklearn.model_selection._split: GroupKFold GroupShuffleSplit KFold LeaveOneGroupOut LeaveOneOut
  LeavePGroupsOut LeavePOut PredefinedSplit RepeatedKFold RepeatedStratifiedKFold ShuffleSplit
  StratifiedGroupKFold StratifiedKFold StratifiedShuffleSplit TimeSeriesSplit
sklearn.multiclass: OneVsOneClassifier OneVsRestClassifier OutputCodeClassifier _ConstantPredictor
sklearn.multioutput: ClassifierChain MultiOutputClassifier MultiOutputRegressor RegressorChain
sklearn.naive_bayes: BernoulliNB CategoricalNB ComplementNB GaussianNB MultinomialNB
sklearn.neighbors._classification: KNeighborsClassifier RadiusNeighborsClassifier
sklearn.neighbors._graph: KNeighborsTransformer RadiusNeighborsTransformer
sklearn.neighbors._kde: KernelDensity
sklearn.neighbors._lof: LocalOutlierFactor
sklearn.neighbors._nca: NeighborhoodComponentsAnalysis
sklearn.neighbors._nearest_centroid: NearestCentroid
sklearn.neighbors._regression: KNeighborsRegressor RadiusNeighborsRegressor
sklearn.neighbors._unsupervised: NearestNeighbors
sklearn.neural_network._multilayer_perceptron: MLPClassifier MLPRegressor
sklearn.neural_network._rbm: BernoulliRBM
sklearn.neural_network._stochastic_optimizers: AdamOptimizer SGDOptimizer
sklearn.pipeline: FeatureUnion Pipeline
sklearn.preprocessing._data: Binarizer KernelCenterer MaxAbsScaler MinMaxScaler Normalizer
  PowerTransformer QuantileTransformer RobustScaler StandardScaler
sklearn.preprocessing._discretization: KBinsDiscretizer
sklearn.preprocessing._encoders: OneHotEncoder OrdinalEncoder
sklearn.preprocessing._function_transformer: FunctionTransformer
sklearn.preprocessing._label: LabelBinarizer LabelEncoder MultiLabelBinarizer
sklearn.preprocessing._polynomial: PolynomialFeatures SplineTransformer
sklearn.preprocessing._target_encoder: TargetEncoder
sklearn.random_projection: GaussianRandomProjection SparseRandomProjection
sklearn.semi_supervised._label_propagation: LabelPropagation LabelSpreading
sklearn.semi_supervised._self_training: SelfTrainingClassifier
sklearn.svm._classes: LinearSVC LinearSVR NuSVC NuSVR OneClassSVM SVC SVR
sklearn.tree._classes: DecisionTreeClassifier DecisionTreeRegressor ExtraTreeClassifier
  ExtraTreeRegressor
sklearn.utils._bunch: Bunch
sklearn.utils._metadata_requests: MetadataRequest MethodMetadataRequest
""")
)
"""Classes whose objects a file may contain, ``package.module:Class``."""

_SELECTION = frozenset(
    _names("""
sklearn.feature_selection._mutual_info: mutual_info_classif mutual_info_regression
sklearn.feature_selection._univariate_selection: chi2 f_classif f_oneway f_regression r_regression
""")
)
_SCORES = frozenset(
    _names("""
sklearn.metrics._classification: accuracy_score balanced_accuracy_score brier_score_loss
  cohen_kappa_score d2_brier_score d2_log_loss_score f1_score fbeta_score hamming_loss hinge_loss
  jaccard_score log_loss matthews_corrcoef precision_score recall_score zero_one_loss
sklearn.metrics._ranking: average_precision_score coverage_error dcg_score
  label_ranking_average_precision_score label_ranking_loss ndcg_score roc_auc_score
  top_k_accuracy_score
sklearn.metrics._regression: d2_absolute_error_score d2_pinball_score d2_tweedie_score
  explained_variance_score max_error mean_absolute_error mean_absolute_percentage_error
  mean_gamma_deviance mean_pinball_loss mean_poisson_deviance mean_squared_error
  mean_squared_log_error mean_tweedie_deviance median_absolute_error r2_score
  root_mean_squared_error root_mean_squared_log_error
sklearn.metrics._scorer: negative_likelihood_ratio positive_likelihood_ratio
sklearn.metrics.cluster._supervised: adjusted_mutual_info_score adjusted_rand_score
  completeness_score fowlkes_mallows_score homogeneity_score mutual_info_score
  normalized_mutual_info_score rand_score v_measure_score
""")
)
_KERNELS = frozenset(
    _names("""
sklearn.metrics.pairwise: additive_chi2_kernel chi2_kernel cosine_distances cosine_similarity
  euclidean_distances haversine_distances laplacian_kernel linear_kernel manhattan_distances
  nan_euclidean_distances polynomial_kernel rbf_kernel sigmoid_kernel
""")
)
# The two algorithms of k-means, one of which a fitted BisectingKMeans has as an attribute.
_K_MEANS = frozenset(
    _names("""
sklearn.cluster._kmeans: _kmeans_single_elkan _kmeans_single_lloyd
""")
)
FUNCTIONS = _SELECTION | _SCORES | _KERNELS | _K_MEANS
"""Functions that an object may refer to, ``package.module:function``."""

# Functions of one array whose result has its rows.
_ELEMENTWISE = frozenset(
    _names("""
numpy: absolute arccos arccosh arcsin arcsinh arctan arctanh cbrt ceil clip conjugate cos cosh
  deg2rad degrees exp exp2 expm1 fabs floor isfinite isinf isnan log log10 log1p log2 logical_not
  nan_to_num negative positive rad2deg radians reciprocal rint round sign signbit sin sinh sqrt
  square tan tanh trunc
scipy.special: cbrt entr erf erfc erfcinv erfinv exp10 exp2 expit expm1 gammaln log1p log_expit
  log_ndtr logit ndtr ndtri
""")
)
_POOLING = frozenset(
    _names("""
numpy: max mean median min sum
""")
)
PLACES: Mapping[str, frozenset[str]] = {
    "func": _ELEMENTWISE | _KERNELS,
    "inverse_func": _ELEMENTWISE | _KERNELS,
    "pooling_func": _POOLING,
    "kernel": _KERNELS,
    "score_func": _SELECTION,
    "_score_func": _SCORES,
    "_kmeans_single": _K_MEANS,
}
"""Attribute → functions that it may be, in a file that is not the user's own.

Elsewhere the same function could be called with arguments of the file's choice.
"""

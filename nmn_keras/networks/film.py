"""The recurrent network with feature-wise linear modulation."""

from nmn_keras.networks.recurrent import RecurrentNetwork


class FiLM(RecurrentNetwork):
    """The last cell's state sets gain and bias of every neuron of a main network fed `x_t`.

    An NMN without the layer that gives z, whose cells see the present observation too: what modulates is not apart from
    what is observed, so there is no signal to lock.

    Reference: Perez et al., "FiLM: visual reasoning with a general conditioning layer", AAAI 2018.
    """

    def _create_readout(self):
        self.main = self._modulated_layers()

    def _readout(self, seen, context):
        return self._run_main(seen, context), None
